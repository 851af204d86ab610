/** The demo project, which the first start with the embedded database loads. */
import type { ProjectFile } from "./ProjectFile.ts"

/** A small project file with invented persons. Their addresses are in a domain reserved for examples (RFC 2606). */
export const demoProjectFile: (typeof ProjectFile)["Encoded"] = {
  project: {
    id: "demo",
    name: "Demo",
    timeZone: "Europe/Berlin",
    contactCapacity: 1000,
    defaultPipelineId: "pipe_sales"
  },
  members: [
    { id: "mem_rosa", name: "Rosa Winter", email: "rosa@example.com" },
    { id: "mem_tom", name: "Tom Alder", email: "tom@example.com" }
  ],
  organizations: [
    { id: "org_harbour", name: "Harbour Coffee" },
    { id: "org_lindgren", name: "Lindgren Bicycles" }
  ],
  pipelines: [
    {
      id: "pipe_sales",
      name: "Sales",
      stages: [
        { id: "stage_new", name: "New" },
        { id: "stage_talking", name: "In talks" },
        { id: "stage_offer", name: "Offer sent" },
        { id: "stage_done", name: "Decided" }
      ]
    }
  ],
  channels: [{ id: "chan_sandbox", providerType: "sandbox", displayName: "Sandbox" }],
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
      createdAt: "2026-03-02T09:15:00.000Z",
      marketingConsent: true,
      addresses: [{ channelId: "chan_sandbox", address: "mara" }]
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
      createdAt: "2026-04-18T14:40:00.000Z",
      marketingConsent: true,
      addresses: [{ channelId: "chan_sandbox", address: "jonas" }]
    },
    {
      id: "cli_ines",
      displayName: "Ines Okoro",
      firstName: "Ines",
      lastName: "Okoro",
      email: "ines.okoro@example.com",
      organizationId: "org_lindgren",
      responsibleMemberId: "mem_rosa",
      createdAt: "2026-06-09T11:05:00.000Z",
      addresses: [{ channelId: "chan_sandbox", address: "ines" }]
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
  ],
  deals: [
    {
      id: "deal_espresso",
      title: "Espresso machines for the harbour",
      clientId: "cli_mara",
      organizationId: "org_harbour",
      stageId: "stage_offer",
      amountMinor: 1250000,
      currency: "EUR",
      expectedCloseDate: "2026-12-15",
      responsibleMemberId: "mem_rosa",
      createdAt: "2026-09-14T08:05:00.000Z"
    },
    {
      id: "deal_grinder",
      title: "A second grinder",
      clientId: "cli_jonas",
      createdAt: "2026-10-27T13:30:00.000Z"
    },
    {
      id: "deal_cargo",
      title: "Six cargo bicycles",
      clientId: "cli_ines",
      organizationId: "org_lindgren",
      stageId: "stage_done",
      status: "won",
      amountMinor: 1680000,
      currency: "EUR",
      responsibleMemberId: "mem_tom",
      closedAt: "2026-10-02T15:45:00.000Z",
      createdAt: "2026-07-01T10:20:00.000Z"
    }
  ],
  tickets: [
    { id: "tic_descaling", subject: "How often to descale?", status: "resolved", clientId: "cli_mara" },
    { id: "tic_invoice", subject: "The invoice names the wrong street", status: "open", clientId: "cli_workshop" }
  ],
  conversations: [
    {
      id: "0193f0cb-d4e5-4f70-8192-03a4b5c6d7e8",
      clientId: "cli_mara",
      channelId: "chan_sandbox",
      address: "mara"
    },
    // A person who is not a client.
    { id: "0193f0cb-f607-4a81-92a3-14b5c6d7e8f9", channelId: "chan_sandbox", address: "somebody" }
  ],
  segments: [
    {
      id: "seg_tasting",
      name: "Tasting last spring",
      description: "Whoever came to the tasting",
      clientIds: ["cli_mara", "cli_jonas", "cli_ines"]
    }
  ],
  templates: [
    { id: "tpl_tasting", version: 1, name: "Invitation", body: "Dear {{firstName}}, will you taste with us again?" }
  ],
  campaigns: [{ id: "cmp_tasting", name: "Invitation to the tasting" }],
  installations: [
    {
      id: "ins_shop",
      name: "Web shop",
      importProfile: {
        version: 1,
        mappings: {
          contact: { name: "displayName", mail: "email", labels: "tags", birthday: "restricted" },
          organization: { company: "name" },
          deal: { subject: "title", total: "amountMinor", currency: "currency" }
        }
      },
      stagedRecords: [
        {
          entityType: "contact",
          externalId: "shop-1001",
          fields: { name: "Mara Quill", mail: "mara.quill@example.com", labels: ["vip", "newsletter"] }
        },
        {
          entityType: "contact",
          externalId: "shop-1002",
          fields: { name: "Jonas Ferrow-Lind", mail: "jonas.ferrow@example.com", birthday: "1987-04-02" }
        },
        { entityType: "contact", externalId: "shop-1003", fields: { name: "Edda Strand", mail: "edda@example.com" } },
        { entityType: "contact", externalId: "shop-1004", fields: { name: "E. Strand", mail: "Edda@Example.com" } },
        { entityType: "organization", externalId: "shop-o-7", fields: { company: "Strand Interiors", size: 12 } },
        {
          entityType: "deal",
          externalId: "shop-d-31",
          fields: { subject: "Counter lamps", total: "480.00", currency: "EUR" }
        }
      ]
    }
  ],
  tasks: [
    {
      id: "task_call",
      title: "Call back about the offer",
      dealId: "deal_espresso",
      clientId: "cli_mara",
      assigneeId: "mem_rosa",
      dueAt: "2026-11-27T09:00:00.000Z"
    }
  ]
}
