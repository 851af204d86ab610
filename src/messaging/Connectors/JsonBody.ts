/** Decodes the bodies of provider answers. */
import { Option, Schema } from "effect"

const utf8 = new TextDecoder("utf-8", { fatal: true })
const decodeUtf8 = Option.liftThrowable((bytes: Uint8Array) => utf8.decode(bytes))

/** Decodes a body as JSON of a schema, or returns none. Unknown members are ignored. */
export const jsonBody = <A>(schema: Schema.Decoder<A>) => {
  const decode = Schema.decodeUnknownOption(Schema.fromJsonString(schema))
  return (body: Option.Option<Uint8Array>): Option.Option<A> =>
    body.pipe(
      Option.flatMap(decodeUtf8),
      Option.flatMap((text) => decode(text))
    )
}
