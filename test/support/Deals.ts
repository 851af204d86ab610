/** What a project file says of deals that notes are to be written on. */
export const withDeals = (...ids: ReadonlyArray<string>) => ({
  pipelines: [{ id: "sales", name: "Sales", stages: [{ id: "new", name: "New" }] }],
  deals: ids.map((id) => ({ id, title: "A deal", pipelineId: "sales" }))
})
