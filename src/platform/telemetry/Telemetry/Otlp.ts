/**
 * Binds the OpenTelemetry SDK to Effect's tracer, metrics and logger. The exporters of `effect/observability` are not used. They
 * have no bound for their queue and no timeout, so while a collector hangs, each span would take 2 KB until the process ends.
 */
import * as NodeSdk from "@effect/opentelemetry/NodeSdk"
import { OTLPLogExporter } from "@opentelemetry/exporter-logs-otlp-http"
import { OTLPMetricExporter } from "@opentelemetry/exporter-metrics-otlp-http"
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http"
import { BatchLogRecordProcessor, type SdkLogRecord } from "@opentelemetry/sdk-logs"
import { PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics"
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type ReadableSpan,
  type Sampler,
  TraceIdRatioBasedSampler
} from "@opentelemetry/sdk-trace-base"
import { redactSecrets } from "../../secrets/Redaction.ts"
import type { TelemetrySettings } from "../../Settings.ts"

/** Exports traces, metrics and logs to `<endpoint>/v1/…`. Flushes them when the scope of the layer closes. */
export const exporters = ({ endpoint, resourceAttributes, sampler, samplerArgument, serviceName }: TelemetrySettings) =>
  NodeSdk.layer(() => ({
    resource: { serviceName, attributes: resourceAttributes },
    spanProcessor: new RedactingSpans(new OTLPTraceExporter({ url: `${endpoint}/v1/traces` })),
    tracerConfig: { sampler: samplers[sampler](samplerArgument) },
    metricReader: new PeriodicExportingMetricReader({
      exporter: new OTLPMetricExporter({ url: `${endpoint}/v1/metrics` }),
      exportIntervalMillis: 15_000
    }),
    logRecordProcessor: new RedactingLogs({ exporter: new OTLPLogExporter({ url: `${endpoint}/v1/logs` }) }),
    loggerMergeWithExisting: true
  }))

/**
 * Samples every span with a sampled parent. `root` decides for a span without a parent. `root` also decides for a span with an
 * unsampled remote parent, so that callers of the public API can't disable its traces. The trace id is kept. If queued work
 * continues an unsampled trace, `root` makes the same decision again, because it decides by the trace id alone.
 */
const parentBased = (root: Sampler) => new ParentBasedSampler({ root, remoteParentNotSampled: root })

const samplers: Record<TelemetrySettings["sampler"], (argument: number) => Sampler> = {
  always_on: () => new AlwaysOnSampler(),
  always_off: () => new AlwaysOffSampler(),
  traceidratio: (ratio) => new TraceIdRatioBasedSampler(ratio),
  parentbased_always_on: () => parentBased(new AlwaysOnSampler()),
  parentbased_always_off: () => parentBased(new AlwaysOffSampler()),
  parentbased_traceidratio: (ratio) => parentBased(new TraceIdRatioBasedSampler(ratio))
}

/** Exports spans without secrets. A URL may contain a token, so attributes and error messages may contain one, too. */
class RedactingSpans extends BatchSpanProcessor {
  override onEnd(span: ReadableSpan): void {
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
