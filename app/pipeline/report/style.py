"""Colours and layout of the page: light and dark as the reader's system asks, one column on a phone."""

from __future__ import annotations

from typing import Final

LIGHT: Final = (
    *("#2a6fdb", "#e0761c", "#1b9a77", "#b3479d", "#c9a400", "#6a5acd"),
    *("#888", "#888", "#888", "#a3a9b3"),
)
"""Told apart by most people who do not see all colours; the last is that of the rest."""

DARK: Final = (
    *("#6aa5ff", "#ff9d4d", "#45caa4", "#e083cc", "#e6c84a", "#a79bff"),
    *("#888", "#888", "#888", "#6c7380"),
)


def _colours(palette: tuple[str, ...]) -> str:
    return "".join(f"--c{at}:{colour};" for at, colour in enumerate(palette))


def _classes() -> str:
    return "".join(
        f".c{at}{{fill:var(--c{at})}}.l{at}{{stroke:var(--c{at})}}" for at in range(len(LIGHT))
    )


CSS: Final = f"""
:root{{color-scheme:light dark;--paper:#fff;--card:#f6f7f9;--ink:#1b1f24;--soft:#5a6472;--line:#d9dee5;
--grave:#b42318;--link:#1f5fc4;{_colours(LIGHT)}}}
@media (prefers-color-scheme:dark){{:root{{--paper:#14171b;--card:#1d2127;--ink:#e8eaed;--soft:#a0a9b5;
--line:#363d47;--grave:#ff8a7a;--link:#8ab8ff;{_colours(DARK)}}}}}
*{{box-sizing:border-box}}
html{{-webkit-text-size-adjust:100%}}
body{{margin:0 auto;max-width:72rem;padding:1.5rem 1.25rem 4rem;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;overflow-wrap:anywhere}}
h1{{font-size:1.7rem;line-height:1.2;margin:0 0 .35rem}}
h2{{font-size:1.2rem;line-height:1.3;margin:0 0 .25rem}}
h3{{font-size:.95rem;margin:1.25rem 0 .25rem}}
p{{margin:.25rem 0 .75rem}}
a{{color:var(--link)}}
.soft,.label{{color:var(--soft);font-size:.875rem}}
nav{{display:flex;flex-wrap:wrap;gap:.25rem 1rem;font-size:.9rem;margin:.75rem 0 1.5rem}}
.tiles{{display:grid;grid-template-columns:repeat(4,minmax(0,1fr));gap:.75rem;margin:0 0 1.5rem;padding:0}}
.tiles div{{background:var(--card);border-radius:.6rem;padding:.7rem .85rem}}
.tiles dt{{color:var(--soft);font-size:.8rem}}
.tiles dd{{margin:0;font-size:1.45rem;font-weight:600;line-height:1.25;font-variant-numeric:tabular-nums}}
.tiles dd small{{display:block;font-size:.8rem;font-weight:400;color:var(--soft)}}
.findings{{list-style:none;margin:0 0 1.5rem;padding:.85rem 1rem;background:var(--card);border-radius:.6rem}}
.findings li{{padding:.15rem 0 .15rem 1.4rem;position:relative}}
.findings li::before{{content:"•";position:absolute;left:.4rem;color:var(--soft)}}
.findings li.grave::before{{content:"!";font-weight:700;color:var(--grave)}}
section{{border-top:1px solid var(--line);padding:1.5rem 0 1rem}}
.pair{{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:0 2.5rem}}
.chart{{display:grid;grid-template-columns:3.6rem minmax(0,1fr);grid-template-rows:auto 13rem 1.4rem auto;margin:.5rem 0}}
.chart .label{{grid-column:1/-1;margin:0 0 .4rem}}
.chart .label.below{{text-align:right;margin:0;font-size:.8rem}}
.chart svg{{grid-column:2;grid-row:2;width:100%;height:100%;display:block;overflow:visible}}
.chart .up{{grid-column:1;grid-row:2;position:relative}}
.chart .up span{{position:absolute;right:.5rem;transform:translateY(50%);font-size:.75rem;color:var(--soft);white-space:nowrap}}
.chart .along{{grid-column:2;grid-row:3;position:relative;overflow:hidden}}
.chart .along span{{position:absolute;top:.2rem;font-size:.75rem;color:var(--soft);white-space:nowrap}}
.grid{{stroke:var(--line);stroke-width:1;vector-effect:non-scaling-stroke}}
polyline{{fill:none;stroke-width:2;stroke-linejoin:round;vector-effect:non-scaling-stroke}}
.hit{{fill:transparent}}.hit:hover{{fill:var(--line);fill-opacity:.5}}g:hover rect{{opacity:.75}}
{_classes()}
.legend{{list-style:none;display:flex;flex-wrap:wrap;gap:.15rem 1.1rem;margin:.25rem 0 .75rem;padding:0;font-size:.85rem}}
.legend li{{display:flex;align-items:baseline;max-width:100%}}
.legend svg{{flex:none;width:.75rem;height:.75rem;margin-right:.4rem;border-radius:2px;vertical-align:-.05rem}}
.bars{{list-style:none;margin:.5rem 0 1rem;padding:0;font-size:.875rem}}
.bars li{{display:grid;grid-template-columns:minmax(0,1fr) auto;gap:0 .75rem;margin:.45rem 0}}
.bars .value{{color:var(--soft);font-variant-numeric:tabular-nums}}
.bars svg{{grid-column:1/-1;width:100%;height:.5rem;display:block;background:var(--card);border-radius:.25rem}}
details{{margin:.5rem 0}}
summary{{cursor:pointer;color:var(--link);font-size:.9rem;padding:.25rem 0}}
.wide{{overflow-x:auto;max-width:100%;border:1px solid var(--line);border-radius:.4rem}}
table{{border-collapse:collapse;font-size:.85rem;min-width:100%;font-variant-numeric:tabular-nums}}
th,td{{text-align:left;padding:.35rem .6rem;border-bottom:1px solid var(--line);vertical-align:top;max-width:24rem;overflow-wrap:break-word}}
tr:last-child td{{border-bottom:0}}
th{{font-weight:600;color:var(--soft);white-space:nowrap;background:var(--card)}}
td.n,th.n{{text-align:right;white-space:nowrap}}
td.t{{min-width:12rem}}
.new{{color:var(--paper);background:var(--c2);border-radius:.3rem;padding:0 .3rem;font-size:.72rem;margin-left:.4rem}}
footer{{border-top:1px solid var(--line);padding-top:1rem}}
footer li{{margin:.2rem 0}}
@media (max-width:46rem){{body{{padding:1rem .9rem 3rem}}.pair{{grid-template-columns:minmax(0,1fr)}}
.tiles{{grid-template-columns:repeat(2,minmax(0,1fr))}}.tiles dd{{font-size:1.25rem}}.chart .odd{{display:none}}
.chart{{grid-template-columns:3.1rem minmax(0,1fr);grid-template-rows:auto 11rem 1.4rem auto}}}}
@media print{{details:not([open])>*{{display:none}}}}
"""
