"""The look of the page, and the little script that it has."""

STYLE = """
:root { color-scheme: light dark; --fg: #1b1f24; --bg: #ffffff; --soft: #57606a; --line: #d0d7de;
  --card: #f6f8fa; --idle: #e4e7eb; --add: #dafbe1; --del: #ffebe9; }
@media (prefers-color-scheme: dark) { :root { --fg: #e6edf3; --bg: #0d1117; --soft: #9198a1; --line: #30363d;
  --card: #161b22; --idle: #2a3038; --add: #12361f; --del: #47191c; } }
* { box-sizing: border-box }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--fg); background: var(--bg); margin: 0 auto;
  max-width: 1060px; padding: 24px }
h1 { font-size: 26px; margin: 0 0 4px } h2 { font-size: 19px; margin: 36px 0 4px } h3 { font-size: 15px }
.note, figcaption { color: var(--soft); margin: 0 0 10px }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(165px, 1fr)); gap: 12px;
  margin: 18px 0 }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 10px 14px }
.card b { display: block; font-size: 21px } .card span { color: var(--soft) }
svg { width: 100%; height: auto; display: block } figure { margin: 0 0 18px }
svg text { font: 12px system-ui, sans-serif; fill: var(--fg) } svg .tick, svg .axis { fill: var(--soft) }
.grid { stroke: var(--line); stroke-width: 1 } .roof { fill: none; stroke: var(--fg); stroke-width: 2 }
.gap { stroke: var(--soft); stroke-dasharray: 4 3 } .point { fill: #e45756 } .idle { fill: var(--idle) }
.legend { margin: 6px 0 } .key { margin-right: 16px; white-space: nowrap }
.key i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px }
table { border-collapse: collapse; margin: 8px 0 } th, td { text-align: left; padding: 2px 12px 2px 0 }
th { border-bottom: 1px solid var(--line) } .n { text-align: right; font-variant-numeric: tabular-nums }
summary { cursor: pointer; color: var(--soft) }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 10px;
  overflow-x: auto; font: 12px/1.45 ui-monospace, monospace; max-height: 640px }
.added { background: var(--add) } .removed { background: var(--del) } .place { color: var(--soft) }
select { font: inherit; max-width: 100% }
"""

SCRIPT = """
const choice = document.getElementById("pass");
if (choice) choice.addEventListener("change", () => {
  for (const pane of document.querySelectorAll(".pane")) pane.hidden = pane.id !== choice.value;
});
"""
