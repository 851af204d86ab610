/** The host of a URL: a name, or an address without brackets in its one canonical form. */
export const hostOf = ({ hostname }: URL): string => hostname.replace(/^\[|\]$/g, "")
