/** A certificate for tests, and trust in it. */
import { Effect } from "effect"
import { getCACertificates, setDefaultCACertificates } from "node:tls"

/** A self-signed certificate for `hooks.test` and `localhost`, valid until 2120. */
export const tls = {
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg2Y0kvoUTqslReRc/
WUYvmBTm2ko0GXXoSu/RZYXqzjihRANCAAQNlpMUboIt0bmeK2fius1GdhxTqn4G
N4IZHjuyYzqnX7m6j1PYk56aCJ29zAhmoq1VebaaTJoAv9+MFP+i2tQM
-----END PRIVATE KEY-----`,
  cert: `-----BEGIN CERTIFICATE-----
MIIBbzCCARWgAwIBAgIBATAKBggqhkjOPQQDAjAVMRMwEQYDVQQDDApob29rcy50
ZXN0MCAXDTIwMDEwMTAwMDAwMFoYDzIxMjAwMTAxMDAwMDAwWjAVMRMwEQYDVQQD
DApob29rcy50ZXN0MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEDZaTFG6CLdG5
nitn4rrNRnYcU6p+BjeCGR47smM6p1+5uo9T2JOemgidvcwIZqKtVXm2mkyaAL/f
jBT/otrUDKNUMFIwIAYDVR0RBBkwF4IKaG9va3MudGVzdIIJbG9jYWxob3N0MA8G
A1UdEwEB/wQFMAMBAf8wHQYDVR0OBBYEFCiUJV7GoKaN+kXdGSJfD9l9I4QaMAoG
CCqGSM49BAMCA0gAMEUCIQD7R5iEAA3nBd5jbH5jAHK+cwjlqpBQbsB0zuvUiXyi
RwIgO+Tdrk8BmH0XtEvbdRM0WjLU7WSEZF2xyjVQ7VQfdcg=
-----END CERTIFICATE-----`
}

/** Makes this process trust the certificate until the scope closes. */
export const trusted = Effect.acquireRelease(
  Effect.sync(() => {
    const before = getCACertificates("default")
    setDefaultCACertificates([...before, tls.cert])
    return before
  }),
  (before) => Effect.sync(() => setDefaultCACertificates(before))
)
