/** The part of a project file with deals for notes. */
export const withDeals = (...ids: ReadonlyArray<string>) => ({
  pipelines: [{ id: "sales", name: "Sales", stages: [{ id: "new", name: "New" }] }],
  deals: ids.map((id) => ({ id, title: "A deal", pipelineId: "sales" }))
})
