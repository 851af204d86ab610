/** The public export `developer-api/client`: what a program that calls the API builds on. */
export { Api } from "./api/Api.ts"
export { Authentication } from "./api/Authentication.ts"
export * as Problems from "./api/Problems.ts"
