/** The style sheet of the console. Text has the contrast of WCAG AA in light and dark mode. */
export const style = `
:root { color-scheme: light; --ink: #1d2433; --soft: #4a5468; --line: #d5dae3; --back: #ffffff; --shade: #f3f5f9;
  --link: #0b4fb3; --good: #0a6b3d; --bad: #a3152a; --busy: #7a4a00; }
@media (prefers-color-scheme: dark) {
  :root { color-scheme: dark; --ink: #e8ebf2; --soft: #b3bccd; --line: #3a4357; --back: #141925; --shade: #1e2535;
    --link: #8ab8ff; --good: #6ddba0; --bad: #ff9aa8; --busy: #f3c572; }
}
* { box-sizing: border-box; } h1, th, td, dt, dd, a, code, .project { unicode-bidi: isolate; }
body { margin: 0; background: var(--back); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
header { background: var(--shade); border-bottom: 1px solid var(--line); padding: 0 1.5rem; }
nav { display: flex; flex-wrap: wrap; align-items: center; gap: .3rem 1.2rem; padding: .6rem 0; }
nav form[role=search] { margin-left: auto; display: flex; gap: .3rem; }
nav .home, nav .project { font-weight: 600; color: var(--ink); }
footer { padding: 1rem 1.5rem; color: var(--soft); border-top: 1px solid var(--line); }
main { padding: 0 1.5rem 3rem; max-width: 90rem; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin-top: 2rem; }
a { color: var(--link); } a:focus-visible, button:focus-visible, input:focus-visible, select:focus-visible,
.scroll:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; left: .5rem; top: -4rem; padding: .5rem 1rem; background: var(--back); } .skip:focus { top: .5rem; }
main:focus { outline: none; } .scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
caption { text-align: left; color: var(--soft); padding: .3rem 0; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem .35rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--soft); } td { overflow-wrap: break-word; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: .6rem 1.5rem; } dl .wide { grid-column: span 2; } dt { color: var(--soft); } dd { margin: 0; font-weight: 600; overflow-wrap: anywhere; }
pre { background: var(--shade); border: 1px solid var(--line); padding: 1rem; overflow-x: auto; white-space: pre-wrap;
  overflow-wrap: anywhere; }
label { color: var(--soft); display: inline-block; } input, select, button { font: inherit; color: var(--ink);
  background: var(--back); border: 1px solid var(--soft); border-radius: 4px; padding: .25rem .5rem; }
::placeholder { color: var(--soft); font-style: italic; opacity: 1; } button { cursor: pointer; background: var(--shade); }
.filters, .action { display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: start; margin: 1rem 0; }
td .action { margin: 0; } .actions { display: flex; flex-wrap: wrap; gap: 0 1rem; } .actions .action { margin: .5rem 0; }
.badge { font-weight: 600; } .badge, time { white-space: nowrap; } .good { color: var(--good); } .bad { color: var(--bad); } .busy { color: var(--busy); }
.notice { border-left: 4px solid var(--link); padding: .1rem 1rem; background: var(--shade); } .notice h2 { margin-top: .5rem; }
.summary { font-size: 1.1rem; font-weight: 600; } .empty, time small { color: var(--soft); }
code { font: 13px ui-monospace, monospace; } td code:not([title]) { display: inline-block; margin-right: .6rem; overflow-wrap: anywhere; } code[title] { white-space: nowrap; } dd code { font-weight: 600; } code span { font-size: 0; } code span::before { content: "…" / ""; font-size: 13px; } time small { font-variant-numeric: tabular-nums; font-weight: 400; } td time small, dd time small { display: block; }
th.number, td.number { text-align: right; font-variant-numeric: tabular-nums; padding-right: 1.2rem; } td { min-width: 5rem; } progress { width: 6rem; }
.charts { display: flex; flex-wrap: wrap; gap: 1rem 2rem; } figure { margin: 0; } figcaption { color: var(--soft); } figcaption + pre { margin-top: .3rem; }
svg { width: 35rem; max-width: 100%; height: auto; background: var(--shade); border: 1px solid var(--line); }
svg .bar, .key.bar { fill: var(--good); background: var(--good); } svg .lost, .key.lost { fill: var(--bad); background: var(--bad); }
svg path { fill: none; stroke-width: 2; } svg .line { stroke: var(--link); } svg .high { stroke: var(--busy); }
svg circle.line { fill: var(--link); } svg circle.high { fill: var(--busy); } .key.line { background: var(--link); } .key.high { background: var(--busy); } .legend > span, progress + span { white-space: nowrap; }
.key { display: inline-block; width: .7rem; height: .7rem; border-radius: 2px; margin-left: .6rem; }
svg .grid { stroke: var(--line); } svg text { fill: var(--soft); font-size: 11px; font-variant-numeric: tabular-nums; } .links { display: flex; flex-wrap: wrap; gap: .3rem .8rem; } details { margin: .5rem 0; }
@media (max-width: 600px) {
  header, main, footer { padding-left: 1rem; padding-right: 1rem; }
  table, tbody, tr, caption { display: block; } thead { display: none; }
  tr { border: 1px solid var(--line); border-radius: 4px; padding: .4rem .8rem; margin-bottom: .6rem; }
  td, td.number { border: 0; padding: .15rem 0 .15rem 8.5rem; text-align: left; display: flow-root; overflow-wrap: anywhere; }
  td::before { content: attr(data-name); color: var(--soft); float: left; width: 8rem; margin-left: -8.5rem; }
  nav { column-gap: .7rem; } svg text { font-size: 16px; } dl { grid-template-columns: 1fr 1fr; column-gap: .6rem; }
  nav form[role=search] { order: 1; width: 100%; } nav form[role=search] input { flex: 1; min-width: 0; }
  nav form:not([role=search]) { margin-left: auto; }
}
@media print { header nav, form, .links, .skip { display: none; } a { color: inherit; } }
`
