#include "examples/pictures/attention_page.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "examples/pictures/heat_map.h"
#include "gradus/core/files/file.h"
#include "gradus/core/ops/shape.h"
#include "gradus/core/runtime/error.h"

namespace gradus {

using core::check;
using nlohmann::json;

namespace {

// ---- the page's parts, between which title and data are put ----

constexpr const char* page_head = R"html(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">
<title>)html";

constexpr const char* page_style = R"html(</title>
<style>
:root {
  color-scheme: light dark;
  --ground: #fbfbf9; --panel: #fff; --ink: #1c2024; --quiet: #5d666f; --line: #d9dcdf;
  --accent: #0b4f8a; --none: #fff; --full: #08306b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #14171a; --panel: #1b1f23; --ink: #e6e8ea; --quiet: #9aa4ad; --line: #363c42;
    --accent: #8cc4ff; --none: #1b1f23; --full: #ffd27a;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.5rem clamp(1rem, 4vw, 3rem) 4rem; max-width: 84rem;
  background: var(--ground); color: var(--ink); font: 16px/1.5 system-ui, sans-serif;
}
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1rem; margin: 0 0 .5rem; }
h2 small { font-weight: 400; color: var(--quiet); font-size: .875rem; }
section { margin-top: 1.75rem; }
.controls { display: flex; flex-wrap: wrap; gap: .75rem 2rem; align-items: end; }
fieldset { border: 0; margin: 0; padding: 0; min-width: 0; }
legend { padding: 0; font-size: .875rem; color: var(--quiet); margin-bottom: .2rem; }
.choices { display: flex; flex-wrap: wrap; gap: .25rem; }
.choices label { position: relative; cursor: pointer; }
.choices input { position: absolute; inset: 0; opacity: 0; margin: 0; cursor: pointer; }
.choices span {
  display: block; min-width: 2.2rem; text-align: center; padding: .2rem .6rem;
  border: 1px solid var(--line); border-radius: .35rem; background: var(--panel);
}
.choices input:checked + span { background: var(--accent); border-color: var(--accent);
  color: var(--panel); }
.choices input:focus-visible + span, button:focus-visible, canvas:focus-visible,
summary:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.tokens { display: flex; flex-wrap: wrap; gap: .25rem; max-height: 21rem; overflow: auto;
  padding: .3rem; margin: 0 -.3rem; }
.tokens > * {
  font: .875rem/1.4 ui-monospace, "DejaVu Sans Mono", monospace; unicode-bidi: isolate;
  padding: .2rem .45rem; border: 1px solid var(--line); border-radius: .3rem;
  background: var(--panel); color: inherit; max-width: 100%; overflow-wrap: anywhere;
}
.tokens button { cursor: pointer; }
.tokens [aria-checked=true], .heads [aria-pressed=true] {
  border-color: var(--accent); box-shadow: 0 0 0 2px var(--accent);
}
.columns {
  display: grid; grid-template-columns: minmax(0, 1fr) minmax(15rem, 20rem); gap: 1.5rem 2.5rem;
}
@media (max-width: 48rem) { .columns { grid-template-columns: minmax(0, 1fr); } }
.columns section:first-child { margin-top: 0; }
.columns aside section { margin-top: 0; }
#top { list-style: none; margin: 0; padding: 0; font-size: .875rem; }
#top li { display: grid; grid-template-columns: minmax(0, 1fr) 3.5rem 5rem; gap: .6rem;
  align-items: center; padding: .15rem 0; }
#top span:first-child { display: flex; align-items: baseline; gap: .4rem; min-width: 0; }
#top bdi { font-family: ui-monospace, "DejaVu Sans Mono", monospace; overflow: hidden;
  text-overflow: ellipsis; white-space: nowrap; }
#top small { color: var(--quiet); }
#top b { font-weight: 400; text-align: right; font-variant-numeric: tabular-nums; }
#top i {
  display: block; height: .6rem; min-width: 1px; background: var(--full); border-radius: 2px;
}
.scroll { overflow: auto; max-width: 100%; }
canvas { display: block; image-rendering: pixelated; }
#matrix { cursor: crosshair; touch-action: manipulation; }
#readout { min-height: 1.5em; margin: .4rem 0 0; font-size: .875rem; overflow-wrap: anywhere; }
.heads {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(8.5rem, 1fr)); gap: .75rem;
}
.heads button {
  padding: .4rem; border: 1px solid var(--line); border-radius: .35rem; background: var(--panel);
  color: inherit; font: .8125rem/1.4 system-ui, sans-serif; cursor: pointer;
}
.heads canvas { width: 100%; height: auto; border: 1px solid var(--line); margin-top: .3rem; }
table { border-collapse: collapse; font-size: .75rem; font-variant-numeric: tabular-nums; }
th, td { border: 1px solid var(--line); padding: .15rem .35rem; text-align: right; }
th {
  font-weight: 500; font-family: ui-monospace, "DejaVu Sans Mono", monospace;
  unicode-bidi: isolate; white-space: nowrap; background: var(--panel);
}
details { margin-top: 1rem; }
summary { cursor: pointer; width: max-content; }
</style>
</head>
<body>
<h1>)html";

constexpr const char* page_body = R"html(</h1>
<noscript>This page draws its pictures with JavaScript, which is switched off.</noscript>
<main>
<form class="controls" id="controls" aria-label="What is shown">
  <fieldset><legend>Attention</legend><div class="choices" id="groups"></div></fieldset>
  <fieldset><legend>Layer</legend><div class="choices" id="layers"></div></fieldset>
  <fieldset><legend>Head</legend><div class="choices" id="heads"></div></fieldset>
  <fieldset><legend>Shades</legend><div class="choices" id="scales"></div></fieldset>
</form>
<div class="columns" style="margin-top:1.75rem">
  <div>
    <section>
      <h2 id="queries-title">Queries
        <small>point at one, or tab here and use the arrow keys</small></h2>
      <div class="tokens" id="queries" role="radiogroup" aria-labelledby="queries-title"></div>
    </section>
    <section>
      <h2 id="keys-title">Keys <small>shaded by their weight for this query</small></h2>
      <div class="tokens" id="keys" role="list" aria-labelledby="keys-title"></div>
    </section>
  </div>
  <aside>
    <section>
      <h2 id="top-title">Where it looks most</h2>
      <ol id="top" aria-labelledby="top-title" aria-live="polite"></ol>
    </section>
  </aside>
</div>
<section>
  <h2>Matrix <small>a row a query, a column a key</small></h2>
  <div class="scroll"><canvas id="matrix" role="img"></canvas></div>
  <p id="readout">&nbsp;</p>
  <details id="numbers"><summary>As numbers</summary><div class="scroll"></div></details>
</section>
<section>
  <h2 id="all-title">All heads of this layer</h2>
  <div class="heads" id="all" role="group" aria-labelledby="all-title"></div>
</section>
</main>
<script type="application/json" id="data">)html";

constexpr const char* page_script = R"html(</script>
<script>
'use strict';
const groups = JSON.parse(document.getElementById('data').textContent);
const $ = id => document.getElementById(id);
const make = (tag, text = '', attributes = {}) => {
  const element = document.createElement(tag);
  element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};
// `query` is the one picked, `over` the one pointed at (or -1); head -1 is the mean of all.
const state = {group: 0, layer: 0, head: 0, scale: 0, query: 0, over: -1};
let shown, picture, colours;  // the weights of the head picked, and their image

// ---- numbers ----

const group = () => groups[state.group];
/// The weights (Tq x Tk, row by row, in thousandths; null: NaN) of a head, or of the heads' mean.
function weights(head) {
  const all = group().weights[state.layer];
  if (head >= 0) return all[head];
  return all[0].map((_, i) => {
    const values = all.map(w => w[i]);
    return values.includes(null) ? null : values.reduce((a, b) => a + b, 0) / values.length;
  });
}
const row = (w, query) => w.slice(query * group().keys.length, (query + 1) * group().keys.length);
/// What a full shade stands for in each row.
const full = values => state.scale ? 1000 : Math.max(...values, 1);
const text = value => value === null ? 'NaN' : (value / 1000).toFixed(3);

// ---- colours ----

const parse = hex => hex.length === 4 ? [1, 2, 3].map(i => parseInt(hex[i] + hex[i], 16))
                                      : [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
function readColours() {
  const style = getComputedStyle(document.documentElement);
  const of = name => style.getPropertyValue(name).trim();
  colours = {none: parse(of('--none')), full: parse(of('--full')), ink: of('--ink'),
             line: of('--line'), accent: of('--accent')};
}
const mix = share => colours.none.map((c, i) => Math.round(c + (colours.full[i] - c) * share));
const colour = (value, most) => value === null ? [200, 60, 60] : mix(value / most);
function shade(element, value, most) {
  const [r, g, b] = colour(value, most);
  element.style.backgroundColor = `rgb(${r}, ${g}, ${b})`;
  element.style.color = .299 * r + .587 * g + .114 * b > 128 ? '#14171a' : '#fff';
}

// ---- a matrix as an image, a pixel a weight ----

function image(w) {
  const {queries, keys} = group(), canvas = make('canvas');
  canvas.width = keys.length, canvas.height = queries.length;
  const context = canvas.getContext('2d');
  const data = context.createImageData(keys.length, queries.length);
  for (let i = 0; i < queries.length; ++i) {
    const values = row(w, i), most = full(values);
    values.forEach((value, j) =>
      data.data.set([...colour(value, most), 255], 4 * (i * keys.length + j)));
  }
  context.putImageData(data, 0, 0);
  return canvas;
}

let place;  // of the matrix in its canvas: left, top, cell, in CSS pixels
const cut = token => [...token].length > 14 ? [...token].slice(0, 13).join('') + '…' : token;
function drawMatrix() {
  const {queries, keys} = group(), canvas = $('matrix'), context = canvas.getContext('2d');
  const ratio = Math.ceil(window.devicePixelRatio || 1);
  const font = '12px ui-monospace, "DejaVu Sans Mono", monospace';
  const longest = Math.max(queries.length, keys.length);
  const cell = Math.max(2, Math.min(26, Math.floor(680 / longest)));
  const named = cell >= 11;
  context.font = font;
  const wide = tokens =>
    named ? Math.ceil(Math.max(...tokens.map(t => context.measureText(cut(t)).width))) + 10 : 2;
  place = {left: wide(queries), top: wide(keys), cell};
  const across = cell * keys.length, down = cell * queries.length;
  const width = place.left + across + 2, height = place.top + down + 2;
  canvas.width = width * ratio, canvas.height = height * ratio;
  canvas.style.width = width + 'px', canvas.style.height = height + 'px';
  context.scale(ratio, ratio);
  context.imageSmoothingEnabled = false;
  context.drawImage(picture, place.left, place.top, across, down);
  context.strokeStyle = colours.line;
  context.strokeRect(place.left - .5, place.top - .5, across + 1, down + 1);
  context.strokeStyle = colours.accent, context.lineWidth = 2;
  context.strokeRect(place.left, place.top + cell * current(), across, cell);
  if (!named) return;
  context.font = font, context.fillStyle = colours.ink, context.textBaseline = 'middle';
  context.textAlign = 'right';
  queries.forEach((token, i) =>
    context.fillText(cut(token), place.left - 6, place.top + (i + .5) * cell));
  context.textAlign = 'left';
  keys.forEach((token, j) => {
    context.save();
    context.translate(place.left + (j + .5) * cell, place.top - 6);
    context.rotate(-Math.PI / 2);
    context.fillText(cut(token), 0, 0);
    context.restore();
  });
}

// ---- what one query sees ----

const current = () => state.over >= 0 ? state.over : state.query;
function showQuery() {
  const {queries, keys} = group(), query = current();
  const values = row(shown, query), most = full(values);
  [...$('queries').children].forEach((button, i) => {
    button.setAttribute('aria-checked', i === query);
    button.tabIndex = i === state.query ? 0 : -1;
  });
  [...$('keys').children].forEach((element, j) => {
    shade(element, values[j], most);
    element.title = text(values[j]);
    element.setAttribute('aria-label', `${keys[j]}: ${text(values[j])}`);
  });
  const order = [...keys.keys()].filter(j => values[j] !== 0)
    .sort((a, b) => values[b] - values[a] || a - b).slice(0, 10);
  $('top-title').replaceChildren('Where ', make('bdi', queries[query]), ' looks most ',
                                 make('small', `query ${query}`));
  $('top').replaceChildren(...order.map(j => {
    const item = make('li'), name = make('span'), bar = make('span'), fill = make('i');
    name.append(make('bdi', keys[j]), make('small', j));
    fill.style.width = (values[j] || 0) / 10 + '%';
    bar.setAttribute('aria-hidden', 'true');
    bar.append(fill);
    item.append(name, make('b', text(values[j])), bar);
    return item;
  }));
  drawMatrix();
}
function point(query, pick) {
  if (pick) state.query = query, state.over = -1;
  else state.over = query;
  showQuery();
}

// ---- what changes with layer and head ----

function showHead() {
  shown = weights(state.head), picture = image(shown);
  const name = state.head < 0 ? 'the mean of the heads' : `head ${state.head + 1}`;
  $('matrix').setAttribute('aria-label',
    `Heat map of the weights of layer ${state.layer + 1}, ${name}; the numbers are below`);
  [...$('all').children].forEach((button, i) =>
    button.setAttribute('aria-pressed', i === state.head));
  for (const input of $('heads').querySelectorAll('input'))
    input.checked = +input.value === state.head;
  showQuery();
  if ($('numbers').open) showNumbers();
}
function showLayer() {
  $('all').replaceChildren(...group().weights[state.layer].map((w, head) => {
    const button = make('button', `head ${head + 1}`, {type: 'button'});
    const canvas = image(w);
    canvas.setAttribute('aria-hidden', 'true');
    button.append(canvas);
    button.onclick = () => { state.head = head; showHead(); };
    return button;
  }));
  showHead();
}
function showNumbers() {
  const {queries, keys} = group(), box = $('numbers').lastElementChild;
  if (queries.length * keys.length > 20000)
    return box.replaceChildren('Too many to be listed here.');
  const table = make('table'), head = table.createTHead().insertRow();
  head.append(make('td'), ...keys.map(token => make('th', token, {scope: 'col'})));
  const body = table.createTBody();
  queries.forEach((token, i) => {
    const line = body.insertRow(), values = row(shown, i), most = full(values);
    line.append(make('th', token, {scope: 'row'}), ...values.map(value => {
      const cell = make('td', text(value));
      shade(cell, value, most);
      return cell;
    }));
  });
  box.replaceChildren(table);
}

// ---- choices ----

/// Radio buttons: [value, label]; `set` is called with the value chosen.
function choices(id, options, chosen, set) {
  $(id).replaceChildren(...options.map(([value, name]) => {
    const label = make('label'), input = make('input', '', {type: 'radio', name: id, value});
    input.checked = value === chosen;
    input.onchange = () => set(value);
    label.append(input, make('span', name));
    return label;
  }));
}
const numbered = list => list.map((_, i) => [i, String(i + 1)]);
function showGroup() {
  const {queries, keys, weights} = group();
  Object.assign(state, {layer: 0, head: 0, query: 0, over: -1});
  choices('layers', numbered(weights), 0, layer => { state.layer = layer; showLayer(); });
  const heads = numbered(weights[0]);
  if (heads.length > 1) heads.push([-1, 'mean']);
  choices('heads', heads, 0, head => { state.head = head; showHead(); });
  $('queries').replaceChildren(...queries.map((token, i) => {
    const button = make('button', token,
                        {type: 'button', role: 'radio', 'aria-label': `${token}, query ${i}`});
    button.onpointerenter = event => { if (event.pointerType === 'mouse') point(i, false); };
    button.onfocus = button.onclick = () => point(i, true);
    return button;
  }));
  $('keys').replaceChildren(...keys.map(token => make('span', token, {role: 'listitem'})));
  showLayer();
}

$('queries').onpointerleave = () => point(-1, false);
$('queries').onkeydown = event => {
  const last = group().queries.length - 1, at = state.query;
  const to = {ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1,
              Home: 0, End: last}[event.key];
  if (to === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  $('queries').children[Math.max(0, Math.min(last, to))].focus();
};
function under(event) {  // [query, key] under the pointer, or nothing
  const box = $('matrix').getBoundingClientRect(), {queries, keys} = group();
  const i = Math.floor((event.clientY - box.top - place.top) / place.cell);
  const j = Math.floor((event.clientX - box.left - place.left) / place.cell);
  return i >= 0 && j >= 0 && i < queries.length && j < keys.length ? [i, j] : null;
}
$('matrix').onpointermove = $('matrix').onpointerdown = event => {
  const at = under(event), {queries, keys} = group();
  if (at && event.type === 'pointerdown') point(at[0], true);
  else if (at && event.pointerType === 'mouse' && at[0] !== current()) point(at[0], false);
  $('readout').textContent = '\u00a0';
  if (at) $('readout').replaceChildren(
    make('bdi', queries[at[0]]), ` (query ${at[0]}) gives `,
    make('bdi', keys[at[1]]), ` (key ${at[1]}) the weight `,
    make('strong', text(row(shown, at[0])[at[1]])));
};
$('matrix').onpointerleave = () => { $('readout').textContent = '\u00a0'; point(-1, false); };
$('numbers').ontoggle = () => { if ($('numbers').open) showNumbers(); };
$('controls').onsubmit = event => event.preventDefault();

choices('groups', groups.map((g, i) => [i, g.name]), 0, i => { state.group = i; showGroup(); });
choices('scales', [[0, 'by row'], [1, '0 to 1']], 0, scale => {
  state.scale = scale;
  showLayer();
});
window.matchMedia('(prefers-color-scheme: dark)').onchange = () => { readColours(); showLayer(); };
readColours();
showGroup();
</script>
</body>
</html>
)html";

// ---- what is put in ----

std::string escaped_html(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else
      result += c;
  }
  return result;
}

/// JSON as it may stand in a script element: ASCII, and without the `<` that could end it.
std::string escaped_json(const json& value) {
  std::string result;
  for (const char c : value.dump(-1, ' ', /*ensure_ascii=*/true))
    result += c == '<' ? "\\u003c" : std::string(1, c);
  return result;
}

json tokens(const std::vector<std::string>& list) {
  json result = json::array();
  for (const std::string& token : list) result.push_back(visible(token));
  return result;
}

/// [layer][head][query * keys + key], in thousandths.
json thousandths(const Tensor& weights) {
  const int64_t heads = weights.size(1), each = weights.size(2) * weights.size(3);
  const std::vector<double> values = weights.to_vector<double>();
  json layers = json::array();
  for (int64_t i = 0; i < std::ssize(values); ++i) {
    if (i % (heads * each) == 0) layers.push_back(json::array());
    if (i % each == 0) layers.back().push_back(json::array());
    const double w = values[static_cast<size_t>(i)];
    check(std::isnan(w) || (w > -1e-3 && w < 1 + 1e-3),
          "attention_page: expected weights from 0 to 1, got ", w);
    json& head = layers.back().back();
    if (std::isnan(w))
      head.push_back(nullptr);
    else
      head.push_back(std::clamp<int64_t>(std::lround(1000 * w), 0, 1000));
  }
  return layers;
}

void check_group(const AttentionGroup& g) {
  check(g.weights.defined() && g.weights.rank() == 4 && g.weights.numel() > 0 &&
            is_floating(g.weights.dtype()),
        "attention_page: expected weights (layers, heads, Tq, Tk) for ", visible(g.name, false),
        ", got ", g.weights.defined() ? g.weights.shape() : Shape{});
  check(std::ssize(g.queries) == g.weights.size(2) && std::ssize(g.keys) == g.weights.size(3),
        "attention_page: ", g.queries.size(), " query and ", g.keys.size(),
        " key tokens for weights of shape ", g.weights.shape());
}

}  // namespace

std::string attention_page(const std::string& title, const std::vector<AttentionGroup>& groups) {
  check(!groups.empty(), "attention_page: expected at least one group");
  json data = json::array();
  for (const AttentionGroup& g : groups) {
    check_group(g);
    data.push_back({{"name", visible(g.name, false)},
                    {"queries", tokens(g.queries)},
                    {"keys", tokens(g.keys)},
                    {"weights", thousandths(g.weights)}});
  }
  const std::string heading = escaped_html(visible(title, false));
  return page_head + heading + page_style + heading + page_body + escaped_json(data) + page_script;
}

void write_attention_page(const std::string& path, const std::string& title,
                          const std::vector<AttentionGroup>& groups) {
  write_file_atomically(path, attention_page(title, groups));
}

Tensor stacked_layers(const std::vector<Tensor>& trace, int64_t row) {
  check(!trace.empty(), "stacked_layers: expected at least one layer");
  std::vector<Tensor> layers;
  for (const Tensor& weights : trace) {
    check(weights.rank() == 4 && row >= 0 && row < weights.size(0),
          "stacked_layers: expected (B, H, Tq, Tk) with B > ", row, ", got ", weights.shape());
    layers.push_back(weights[row]);
  }
  return core::stack(layers);
}

}  // namespace gradus
