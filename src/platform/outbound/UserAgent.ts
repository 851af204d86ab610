import manifest from "../../../package.json" with { type: "json" }

/** Who calls. */
export const userAgent = `developer-api/${manifest.version}`
