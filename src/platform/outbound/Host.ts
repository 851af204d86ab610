/** Returns the host of a URL: a name, or an address in canonical form without brackets. */
export const hostOf = ({ hostname }: URL): string => hostname.replace(/^\[|\]$/g, "")
