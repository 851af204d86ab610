/** The project that a first start without a database loads, so that there is something to look at. */
import type { ProjectFile } from "./ProjectFile.ts"

/** A small project file. All persons are invented; their addresses are of a domain reserved for examples (RFC 2606). */
export const demoProjectFile: (typeof ProjectFile)["Encoded"] = {
  project: { id: "demo", name: "Demo", timeZone: "Europe/Berlin", contactCapacity: 1000 },
  members: [
    { id: "mem_rosa", name: "Rosa Winter", email: "rosa@example.com" },
    { id: "mem_tom", name: "Tom Alder", email: "tom@example.com" }
  ],
  organizations: [
    { id: "org_harbour", name: "Harbour Coffee" },
    { id: "org_lindgren", name: "Lindgren Bicycles" }
  ],
  clients: [
    {
      id: "cli_mara",
      displayName: "Mara Quill",
      firstName: "Mara",
      lastName: "Quill",
      email: "mara.quill@example.com",
      tags: ["newsletter", "vip"],
      externalId: "shop-1001",
      organizationId: "org_harbour",
      responsibleMemberId: "mem_rosa",
      createdAt: "2026-03-02T09:15:00.000Z"
    },
    {
      id: "cli_jonas",
      displayName: "Jonas Ferrow",
      firstName: "Jonas",
      lastName: "Ferrow",
      email: "jonas.ferrow@example.com",
      tags: ["newsletter"],
      externalId: "shop-1002",
      responsibleMemberId: "mem_tom",
      createdAt: "2026-04-18T14:40:00.000Z"
    },
    {
      id: "cli_ines",
      displayName: "Ines Okoro",
      firstName: "Ines",
      lastName: "Okoro",
      email: "ines.okoro@example.com",
      organizationId: "org_lindgren",
      responsibleMemberId: "mem_rosa",
      createdAt: "2026-06-09T11:05:00.000Z"
    },
    {
      id: "cli_workshop",
      displayName: "Lindgren workshop desk",
      email: "workshop@example.com",
      organizationId: "org_lindgren",
      tags: ["wholesale"],
      createdAt: "2026-08-21T07:30:00.000Z"
    },
    {
      id: "cli_peter",
      displayName: "Peter Vale",
      firstName: "Peter",
      lastName: "Vale",
      status: "archived",
      createdAt: "2025-11-30T16:20:00.000Z"
    }
  ]
}
