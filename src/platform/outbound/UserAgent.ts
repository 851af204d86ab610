import manifest from "../../../package.json" with { type: "json" }

/** The `user-agent` of outbound requests. */
export const userAgent = `developer-api/${manifest.version}`
