import { ConfigProvider, Layer } from "effect"
import { Settings } from "../../src/platform/Settings.ts"
import { retentions } from "../../src/service/StoredData.ts"
import { pruning, type Retention } from "../../src/work/Retention.ts"
import { Supervisor } from "../../src/work/Supervisor.ts"

/** Runs the pruners, or those of one name, with settings. */
export const prunersWith = (env: Readonly<Record<string, string>>, name?: Retention["name"]) =>
  pruning(retentions.filter((retention) => name === undefined || retention.name === name)).pipe(
    Layer.provide([
      Settings.layer.pipe(Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(env)))),
      Supervisor.layer
    ])
  )
