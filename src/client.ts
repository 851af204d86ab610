/**
 * The public export `developer-api/client`: a typed client of the developer API.
 *
 * With Effect: `DeveloperApi`. Without Effect: `createClient`. For webhooks: `verifyWebhook`, `verifyWebhookPromise`.
 */
export { Api } from "./api/Api.ts"
export { Authentication } from "./api/Requests.ts"
export { NotModified } from "./api/Endpoints.ts"
export * as Problems from "./api/Problems.ts"
export type { AttemptOptions, RetryOptions } from "./client/Retries.ts"
export { bearerLayer, DeveloperApi, type DeveloperApiOptions } from "./client/DeveloperApi.ts"
export { keepNewest, type Versions } from "./client/Signature.ts"
export type {
  CallOptions,
  GroupName,
  OperationAnswer,
  OperationFailure,
  OperationItem,
  OperationName,
  OperationRequest,
  Operations,
  PromiseOperations
} from "./client/Operations.ts"
export { isProblem, type Problem, UnexpectedProblem } from "./client/Problem.ts"
export { type ClientOptions, createClient, type DeveloperClient } from "./client/PromiseClient.ts"
export {
  type BatchOptions,
  followChanges,
  followChangesPromise,
  type FollowOptions,
  sendBatches,
  sendBatchesPromise
} from "./client/Sync.ts"
export {
  verifyWebhook,
  verifyWebhookPromise,
  type WebhookDelivery,
  type WebhookEvent,
  WebhookInvalid,
  type WebhookInvalidReason
} from "./client/Webhooks.ts"
