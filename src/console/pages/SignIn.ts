/** The pages that are shown without a session. */
import { html } from "../Html.ts"
import { pageResponse } from "../Layout.ts"
import { signInPath } from "../../http/auth/OperatorSessions.ts"

export const signInPage = pageResponse(
  { title: "Sign in" },
  [
    html`<p>This is the operators' console. To sign in, run this command on the host of the service</p>`,
    html`<pre>npm run --silent cli -- console</pre>`,
    html`<p>and open the link that it prints. It works once, for 10 minutes.</p>`
  ],
  401
)

/**
 * The page of a sign-in link. Only its button redeems the link. Loading the page changes nothing, because software that previews
 * links may load it.
 */
export const linkPage = (code: string) =>
  pageResponse({ title: "Sign in" }, [
    html`<form method="post" action="${signInPath}">
      <input type="hidden" name="code" value="${code}" /><button>Sign in</button>
    </form>`
  ])
