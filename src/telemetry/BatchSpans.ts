/**
 * Spans of calls that run in batches: one for the wait of each call in the queue, and one for a batch of several calls. The span of the
 * batch has links to the requests of its calls, and the span of each wait has a link to the batch. Only calls whose trace is recorded
 * have spans.
 */
import { Clock, Context, Exit, Option, References, Tracer } from "effect"

interface Waiting {
  readonly context: Context.Context<never>
  /** The span of the wait. */
  readonly wait: Tracer.Span | undefined
}

export const beginWait = (context: Context.Context<never>): Tracer.Span | undefined => {
  const request = Context.getOrUndefined(context, Tracer.ParentSpan)
  if (request?.sampled !== true || !Context.get(context, References.TracerEnabled)) return undefined
  const wait = begin(context, "wait in queue", request, [])
  // The sampler of this process decides, whatever the stored trace of queued work says.
  return wait.sampled ? wait : undefined
}

/** Ends the waits of calls, and begins the span of their batch. A call that runs alone has no such span: its statement is below its own. */
export const beginBatch = (calls: ReadonlyArray<Waiting>): Tracer.Span | undefined => {
  const first = calls.find(({ wait }) => wait !== undefined)
  if (first === undefined) return undefined
  const requests = calls.flatMap(({ wait }) => (wait === undefined ? [] : Option.toArray(wait.parent)))
  const [parent] = requests
  const batch = calls.length === 1 || parent === undefined ? undefined : begin(first.context, "batch", parent, requests)
  batch?.attribute("db.operation.batch.size", calls.length)
  for (const { context, wait } of calls) {
    if (wait === undefined) continue
    if (batch !== undefined) wait.addLinks([linkTo(batch)])
    end(wait, context, Exit.void)
  }
  return batch
}

export const end = (span: Tracer.Span, context: Context.Context<never>, exit: Exit.Exit<unknown, unknown>): void =>
  span.end(now(context), exit)

const begin = (
  context: Context.Context<never>,
  name: string,
  parent: Tracer.AnySpan,
  links: ReadonlyArray<Tracer.AnySpan>
): Tracer.Span =>
  Context.get(context, Tracer.Tracer).span({
    name,
    parent: Option.some(parent),
    annotations: Context.empty(),
    links: links.map(linkTo),
    startTime: now(context),
    kind: "internal",
    root: false,
    sampled: true
  })

const linkTo = (span: Tracer.AnySpan): Tracer.SpanLink => ({ span, attributes: {} })

const now = (context: Context.Context<never>): bigint => Context.get(context, Clock.Clock).currentTimeNanosUnsafe()
