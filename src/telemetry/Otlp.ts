/**
 * Binds the OpenTelemetry SDK to Effect's tracer, metrics and logger. The exporters of `effect/observability` are not used. They
 * have no bound for their queue and no timeout, so while a collector hangs, each span would take 2 KB until the process ends.
 */
import * as NodeSdk from "@effect/opentelemetry/NodeSdk"
import { OTLPLogExporter } from "@opentelemetry/exporter-logs-otlp-http"
import { OTLPMetricExporter } from "@opentelemetry/exporter-metrics-otlp-http"
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http"
import { CompressionAlgorithm } from "@opentelemetry/otlp-exporter-base"
import { BatchLogRecordProcessor, type SdkLogRecord } from "@opentelemetry/sdk-logs"
import { type MetricData, PeriodicExportingMetricReader, type ResourceMetrics } from "@opentelemetry/sdk-metrics"
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type ReadableSpan,
  type Sampler,
  type Span,
  type SpanExporter,
  TraceIdRatioBasedSampler
} from "@opentelemetry/sdk-trace-base"
import { randomUUID } from "node:crypto"
import { redactSecrets } from "../platform/Text.ts"
import type { TelemetrySettings } from "../platform/Settings.ts"

const compression = CompressionAlgorithm.GZIP

/** Exports traces, metrics and logs to `<endpoint>/v1/…`. Flushes them when the scope of the layer closes. */
export const exporters = ({
  endpoint,
  resourceAttributes,
  sampler,
  samplerArgument,
  serviceName,
  sqlText
}: TelemetrySettings) =>
  NodeSdk.layer(() => ({
    resource: { serviceName, attributes: { "service.instance.id": randomUUID(), ...resourceAttributes } },
    spanProcessor: new Spans(new OTLPTraceExporter({ url: `${endpoint}/v1/traces`, compression }), sqlText),
    tracerConfig: { sampler: samplers[sampler](samplerArgument) },
    metricReader: new PeriodicExportingMetricReader({
      exporter: new ConventionalMetrics({ url: `${endpoint}/v1/metrics`, compression }),
      exportIntervalMillis: 15_000
    }),
    logRecordProcessor: new RedactingLogs({
      exporter: new OTLPLogExporter({ url: `${endpoint}/v1/logs`, compression })
    }),
    loggerMergeWithExisting: true
  }))

/**
 * Samples a span as its parent in this process. `root` decides for a span without a parent, and for one whose parent is remote: callers of
 * the public API can neither disable traces nor force them. The trace id is kept. If queued work continues a trace, `root` makes the same
 * decision again, because it decides by the trace id alone.
 */
const parentBased = (root: Sampler) =>
  new ParentBasedSampler({ root, remoteParentSampled: root, remoteParentNotSampled: root })

const samplers: Record<TelemetrySettings["sampler"], (argument: number) => Sampler> = {
  always_on: () => new AlwaysOnSampler(),
  always_off: () => new AlwaysOffSampler(),
  traceidratio: (ratio) => new TraceIdRatioBasedSampler(ratio),
  parentbased_always_on: () => parentBased(new AlwaysOnSampler()),
  parentbased_always_off: () => parentBased(new AlwaysOffSampler()),
  parentbased_traceidratio: (ratio) => parentBased(new TraceIdRatioBasedSampler(ratio))
}

/** The names of metrics that the conventions name otherwise than Prometheus does. */
const metricNames: Readonly<Record<string, string>> = {
  process_cpu: "process.cpu.time",
  process_resident_memory: "process.memory.usage",
  nodejs_heap_used: "v8js.memory.heap.used",
  nodejs_eventloop_delay: "nodejs.eventloop.delay.p99"
}

const units: Readonly<Record<string, string>> = { _seconds: "s", _bytes: "By" }

/**
 * Exports metrics by the names and units of OpenTelemetry's semantic conventions. Prometheus, and a collector that exports to it, adds the
 * unit and `_total` to the name.
 */
class ConventionalMetrics extends OTLPMetricExporter {
  override export(metrics: ResourceMetrics, done: Parameters<OTLPMetricExporter["export"]>[1]): void {
    const scopeMetrics = metrics.scopeMetrics.map((scope) => ({ ...scope, metrics: scope.metrics.map(conventional) }))
    super.export({ ...metrics, scopeMetrics }, done)
  }
}

const conventional = (metric: MetricData): MetricData => {
  const [, plain = "", unit = ""] = /^(.+?)(_seconds|_bytes)?(?:_total)?$/.exec(metric.descriptor.name) ?? []
  const dotted = /^(http_server|db_client)_/.test(plain) ? plain.replaceAll("_", ".") : plain
  const name = metricNames[plain] ?? dotted
  return { ...metric, descriptor: { ...metric.descriptor, name, unit: units[unit] ?? metric.descriptor.unit } }
}

/**
 * Exports spans without secrets, and names the spans of statements. A URL may contain a token, so attributes and error messages may
 * contain one, too. The text of a statement is left out unless `TRACE_SQL_TEXT` is set: texts would be most of what is exported.
 */
class Spans extends BatchSpanProcessor {
  private readonly nameOf = makeStatementNames()
  private readonly sqlText: boolean

  constructor(exporter: SpanExporter, sqlText: boolean) {
    super(exporter)
    this.sqlText = sqlText
  }

  onEnding(span: Span): void {
    const text = span.attributes["db.query.text"]
    if (typeof text !== "string") return
    const summary = this.nameOf(text)
    const [operation = "", collection] = summary.split(" ")
    span.updateName(summary).setAttributes({ "db.query.summary": summary, "db.operation.name": operation })
    if (collection !== undefined) span.setAttribute("db.collection.name", collection)
  }

  override onEnd(span: ReadableSpan): void {
    if (!this.sqlText) delete span.attributes["db.query.text"]
    redactAttributes(span.attributes)
    for (const event of span.events) redactAttributes(event.attributes ?? {})
    if (span.status.message !== undefined) span.status.message = redactSecrets(span.status.message)
    super.onEnd(span)
  }
}

class RedactingLogs extends BatchLogRecordProcessor {
  override onEmit(record: SdkLogRecord): void {
    const { body } = record
    if (typeof body === "string") record.setBody(redactSecrets(body))
    else if (Array.isArray(body))
      record.setBody(body.map((part) => (typeof part === "string" ? redactSecrets(part) : part)))
    redactAttributes(record.attributes)
    super.onEmit(record)
  }
}

const redactAttributes = (attributes: Record<string, unknown>) => {
  for (const [name, value] of Object.entries(attributes)) attributes[name] = redacted(value)
}

const redacted = (value: unknown): unknown => {
  if (typeof value === "string") return redactSecrets(value)
  return Array.isArray(value) ? value.map(redacted) : value
}

/** Tables that mutations write beside the table that they are about. */
const beside = / (?:idempotency_keys|projects)$/

/** Changes begin a text or follow a bracket. Locks of rows and actions of conflicts (`FOR UPDATE`, `DO UPDATE`) do not. */
const changes = /(?:^|[()])\s*(INSERT|UPDATE|DELETE)\s+(?:INTO\s+|FROM\s+|ONLY\s+)?"?(\w+)/g

/** What follows FROM or JOIN, except calls of functions. FROM is also a word of `extract` and of IS DISTINCT FROM. */
const sources = /(?<!\bextract\(\w+\s+|\bDISTINCT\s+)\b(?:FROM|JOIN)\s+(?:LATERAL\s+)?"?(\w+)\b"?(?!\s*[(.])/g

/** The names of common table expressions, which are no tables. */
const expressions = /(\w+)\s*(?:\([^()]*\)\s*)?\bAS\s+(?:(?:NOT\s+)?MATERIALIZED\s+)?\(/g

/** Returns the verb and the table of a statement, such as `INSERT clients`, or its verb alone, such as `COMMIT`. */
const nameOf = (text: string): string => {
  const changed = Array.from(text.matchAll(changes), ([, verb, table]) => `${verb} ${table}`)
  const own = new Set(Array.from(text.matchAll(expressions), ([, name]) => name))
  const read = Array.from(text.matchAll(sources), ([, table]) => table).find((table) => !own.has(table)) ?? ""
  const [verb = "SQL"] = /\w+/.exec(text.replace(/^\s*WITH\b/, "SELECT")) ?? []
  return changed.find((name) => !beside.test(name)) ?? changed[0] ?? `${verb} ${read}`.trim()
}

/** Makes a `nameOf` that remembers the names of up to 1,000 texts. The service has fewer texts, unless it composes them from its input. */
export const makeStatementNames = (): ((text: string) => string) => {
  const names = new Map<string, string>()
  return (text) => {
    if (names.size >= 1_000) names.clear()
    const name = names.get(text) ?? nameOf(text)
    names.set(text, name)
    return name
  }
}
