/** Returns the parts of a project file for deals that notes can have. */
export const withDeals = (...ids: ReadonlyArray<string>) => ({
  pipelines: [{ id: "sales", name: "Sales", stages: [{ id: "new", name: "New" }] }],
  deals: ids.map((id) => ({ id, title: "A deal", pipelineId: "sales" }))
})
