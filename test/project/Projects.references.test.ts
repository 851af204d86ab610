/** Faults between the records of a file and of its project: repeated ids, and references to missing records. */
import { assert, layer } from "../support/Vitest.ts"
import { apply, faultsOf, projectRow, rowsOf, services, textOf } from "./Projects.support.ts"

const nothingIn = (target: string) => `names nothing in ${target}, here or in the project`

const uuid = "0193f0cb-d4e5-4f70-8192-03a4b5c6d7e8"

const targets = {
  members: [{ id: "m", name: "M" }],
  organizations: [{ id: "o", name: "O" }],
  pipelines: [{ id: "p", name: "P", stages: [{ id: "s", name: "S" }] }],
  loyaltyLevels: [{ id: "l", name: "L" }],
  stampOffers: [
    { id: "1", name: "One" },
    { id: "2", name: "Two" }
  ],
  channels: [{ id: "k", providerType: "sandbox" as const, displayName: "K" }]
}

/** Every reference that a file can have. The first three parts reference each other, the rest reference `targets`. */
const referring = {
  project: { defaultPipelineId: "p" },
  clients: [
    {
      id: "c",
      displayName: "C",
      organizationId: "o",
      responsibleMemberId: "m",
      addresses: [{ channelId: "k", address: "1" }],
      loyalty: { levelId: "l", readyStampOfferIds: ["1", "2"] }
    }
  ],
  deals: [
    { id: "d", title: "D", clientId: "c", organizationId: "o", pipelineId: "p", stageId: "s", responsibleMemberId: "m" }
  ],
  tickets: [{ id: "t", subject: "T", status: "open" as const, clientId: "c" }],
  conversations: [{ id: uuid, clientId: "c", channelId: "k", address: "1" }],
  tasks: [{ id: "k", title: "K", dealId: "d", clientId: "c", assigneeId: "m" }]
}

layer(services)("external ids in a project file", (it) => {
  const client = (id: string, externalId?: string | null) => ({
    id,
    displayName: id,
    ...(externalId === undefined ? {} : { externalId })
  })
  const deal = (id: string, externalId: string | null) => ({ id, title: id, externalId })

  it.effect("are refused at their path if they repeat one of the file or one that the project keeps", function* () {
    const id = "external"
    const { pipelines } = targets
    yield* apply(id, { pipelines, clients: [client("kept", "k"), client("moved", "m")], deals: [deal("kept", "k")] })
    const before = [yield* rowsOf("clients", id), yield* rowsOf("deals", id)]
    assert.deepStrictEqual(
      yield* faultsOf(
        textOf(id, {
          // An external id of a client may be that of a deal. A client without the member keeps what it has.
          clients: [
            client("a", "x"),
            client("b", null),
            client("c", "x"),
            client("d", "k"),
            client("kept"),
            client("e", null)
          ],
          deals: [deal("a", "x"), deal("b", "x"), deal("c", "k")]
        })
      ),
      [
        "clients/2/externalId: repeats clients/0/externalId",
        "deals/1/externalId: repeats deals/0/externalId",
        "clients/3/externalId: repeats that of kept in the project",
        "deals/2/externalId: repeats that of kept in the project"
      ]
    )
    assert.deepStrictEqual([yield* rowsOf("clients", id), yield* rowsOf("deals", id)], before)
  })

  it.effect("may be exchanged, cleared, and given to a new client by one file", function* () {
    const id = "exchange"
    yield* apply(id, { clients: [client("a", "1"), client("b", "2"), client("c", "3"), client("d", "4")] })
    const report = yield* apply(id, {
      clients: [client("a", "2"), client("b", "1"), client("c", null), client("d", "4"), client("e", "3")]
    })
    assert.deepStrictEqual(
      [report.created["clients"], report.updated["clients"], report.unchanged["clients"]],
      [1, 3, 1]
    )
    const rows = yield* rowsOf("clients", id)
    assert.deepStrictEqual(
      rows.map((row) => [Reflect.get(row, "id"), Reflect.get(row, "external_id"), Reflect.get(row, "version")]),
      [
        ["a", "2", 2],
        ["b", "1", 2],
        ["c", null, 2],
        ["d", "4", 1],
        ["e", "3", 1]
      ]
    )
  })
})

layer(services)("references of a project file", (it) => {
  it.effect("are to records of the file or the project only", function* () {
    yield* apply("references-other", { ...targets, ...referring })
    const { clients, conversations, deals, project, tasks, tickets } = referring
    const others = { tickets, conversations, tasks }
    const alone = { project, clients, deals, ...others }
    assert.deepStrictEqual(yield* faultsOf(textOf("references", alone)), [
      `project/defaultPipelineId: ${nothingIn("pipelines")}`,
      `clients/0/organizationId: ${nothingIn("organizations")}`,
      `clients/0/responsibleMemberId: ${nothingIn("members")}`,
      `clients/0/loyalty/levelId: ${nothingIn("loyaltyLevels")}`,
      `clients/0/loyalty/readyStampOfferIds/0: ${nothingIn("stampOffers")}`,
      `clients/0/loyalty/readyStampOfferIds/1: ${nothingIn("stampOffers")}`,
      `clients/0/addresses/0/channelId: ${nothingIn("channels")}`,
      `deals/0/organizationId: ${nothingIn("organizations")}`,
      `deals/0/pipelineId: ${nothingIn("pipelines")}`,
      `deals/0/stageId: ${nothingIn("stages")}`,
      `deals/0/responsibleMemberId: ${nothingIn("members")}`,
      `conversations/0/channelId: ${nothingIn("channels")}`,
      `tasks/0/assigneeId: ${nothingIn("members")}`
    ])
    assert.deepStrictEqual(yield* faultsOf(textOf("references", others)), [
      `tickets/0/clientId: ${nothingIn("clients")}`,
      `conversations/0/clientId: ${nothingIn("clients")}`,
      `conversations/0/channelId: ${nothingIn("channels")}`,
      `tasks/0/dealId: ${nothingIn("deals")}`,
      `tasks/0/clientId: ${nothingIn("clients")}`,
      `tasks/0/assigneeId: ${nothingIn("members")}`
    ])
    assert.deepStrictEqual(yield* faultsOf(textOf("references", { ...targets, deals })), [
      `deals/0/clientId: ${nothingIn("clients")}`
    ])
    assert.isUndefined(yield* projectRow("references"))

    yield* apply("references", targets)
    assert.deepStrictEqual((yield* apply("references", alone)).created, {
      project: 0,
      clients: 1,
      deals: 1,
      tickets: 1,
      conversations: 1,
      tasks: 1
    })
    assert.deepStrictEqual((yield* apply("references", others)).unchanged, {
      project: 1,
      tickets: 1,
      conversations: 1,
      tasks: 1
    })
  })

  it.effect("of deals keep a stage on its pipeline, unless the file moves the deals", function* () {
    const id = "stages"
    const pipeline = (id: string, ...stages: ReadonlyArray<string>) => ({
      id,
      name: id,
      stages: stages.map((id) => ({ id, name: id }))
    })
    const deals = [{ id: "d", title: "D", pipelineId: "p", stageId: "a" }]
    yield* apply(id, { pipelines: [pipeline("p", "a", "b"), pipeline("q", "c")], deals })
    const pipelines = [pipeline("p", "b"), pipeline("q", "c", "a")]
    for (const file of [{ pipelines }, { pipelines, deals: [{ id: "d", title: "D" }] }]) {
      assert.deepStrictEqual(yield* faultsOf(textOf(id, file)), [
        "pipelines/0/stages: must keep the stage a: the deal d is in it"
      ])
    }
    const moved = [{ id: "d", title: "D", pipelineId: "q", stageId: "a" }]
    assert.strictEqual((yield* apply(id, { pipelines, deals: moved })).updated["deals"], 1)
  })

  it.effect("to missing records are reported with all other faults between records, without effect", function* () {
    const id = "faulty"
    const named = [
      { id: "x", name: "X" },
      { id: "y", name: "Y" },
      { id: "x", name: "Z" }
    ]
    const file = {
      members: named,
      organizations: named,
      loyaltyLevels: named,
      stampOffers: named,
      pipelines: named.map(({ id, name }) => ({ id, name, stages: [{ id, name }] })),
      segments: named.map(({ id, name }) => ({ id, name, clientIds: ["a", "b", "a"] })),
      templates: [1, 2, 1].map((version) => ({ id: "t", version, name: "T", body: "Hello" })),
      campaigns: named,
      installations: [{ id: "i", name: "I", importProfile: { version: 1, mappings: {} }, stagedRecords: [] }],
      channels: named.map(({ id, name }) => ({ id, providerType: "http" as const, displayName: name })),
      clients: [
        { id: "a", displayName: "A", responsibleMemberId: "o", marketingConsent: true },
        {
          id: "__proto__",
          displayName: "B",
          marketingConsent: false,
          addresses: [],
          loyalty: null,
          suppressed: true,
          mergedIntoClientId: "__proto__"
        },
        { id: "a", displayName: "A", mergedIntoClientId: "b", loyalty: {}, organizationId: "x" },
        {
          id: "__proto__",
          displayName: "B",
          addresses: ["x", "q", "x"].map((channelId) => ({ channelId, address: "1" })),
          organizationId: "q"
        }
      ],
      deals: named.map(({ id, name }) => ({ id, title: name, pipelineId: "y", amountMinor: 1 })),
      tickets: named.map(({ id, name }) => ({ id, subject: name, status: "open" as const })),
      conversations: [uuid, uuid.toUpperCase()].map((id) => ({ id, channelId: "z", clientId: "a", address: "1" })),
      tasks: named.map(({ id, name }) => ({ id, title: name, assigneeId: id, clientId: "__proto__" }))
    }
    assert.deepStrictEqual(yield* faultsOf(textOf(id, file)), [
      "pipelines/2/stages/0/id: repeats pipelines/0/stages/0/id",
      "members/2/id: repeats members/0/id",
      "organizations/2/id: repeats organizations/0/id",
      "pipelines/2/id: repeats pipelines/0/id",
      "loyaltyLevels/2/id: repeats loyaltyLevels/0/id",
      "stampOffers/2/id: repeats stampOffers/0/id",
      "channels/2/id: repeats channels/0/id",
      "clients/2/id: repeats clients/0/id",
      "clients/3/id: repeats clients/1/id",
      "deals/2/id: repeats deals/0/id",
      "tickets/2/id: repeats tickets/0/id",
      "conversations/1/id: repeats conversations/0/id",
      "segments/2/id: repeats segments/0/id",
      "campaigns/2/id: repeats campaigns/0/id",
      "tasks/2/id: repeats tasks/0/id",
      "clients/3/addresses/2: repeats clients/3/addresses/0",
      ...[0, 1, 2].map((index) => `segments/${index}/clientIds/2: repeats segments/${index}/clientIds/0`),
      "templates/2: repeats templates/0",
      "clients/1/mergedIntoClientId: must be another client than this one",
      `clients/3/organizationId: ${nothingIn("organizations")}`,
      `clients/0/responsibleMemberId: ${nothingIn("members")}`,
      `clients/3/addresses/1/channelId: ${nothingIn("channels")}`,
      `clients/2/mergedIntoClientId: ${nothingIn("clients")}`,
      `conversations/0/channelId: ${nothingIn("channels")}`,
      `conversations/1/channelId: ${nothingIn("channels")}`,
      ...[0, 1, 2].map((index) => `segments/${index}/clientIds/1: ${nothingIn("clients")}`),
      "channels/0/config: is required for a new channel",
      "channels/1/config: is required for a new channel",
      "channels/2/config: is required for a new channel",
      "deals/0/currency: is required with an amount",
      "deals/1/currency: is required with an amount",
      "deals/2/currency: is required with an amount"
    ])
    assert.isUndefined(yield* projectRow(id))
    assert.deepStrictEqual(yield* faultsOf(textOf(id, { clients: [{ id: "", displayName: "" }] })), [
      "clients/0/id: must be a string of 1 to 160 visible ASCII characters",
      "clients/0/displayName: must be a string of 1 to 160 characters"
    ])
    assert.deepStrictEqual(yield* faultsOf("{"), ["invalid JSON at line 1, column 2"])
  })
})
