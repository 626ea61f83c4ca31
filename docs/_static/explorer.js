// The layout explorer: which device holds which slice of an array.
// The tests compare its answers with JAX, its slices with shardscope.draw.
(() => {
"use strict";

const COLORS = [
  "#8ecae6", "#ffc85c", "#a3d398", "#f7a8b8",
  "#bfaeea", "#76d7c4", "#f6a57b", "#d9d671",
];

// As shardscope.draw: each slice has a color of its own.
const colorOf = (number) => COLORS[number] || `hsl(${
  (number * 137.508 % 360).toFixed(0)} ${55 + number % 3 * 15}% ${
  82 - number % 4 * 5}%)`;

// Refuse a choice; "jax" is what JAX raises, where it would get so far.
const fail = (message, jax = "") => {
  throw Object.assign(new Error(message), { jax });
};

const product = (numbers) => numbers.reduce((a, b) => a * b, 1);
const same = (a, b) => String(a) === String(b);
const tuple = (items) =>
  `(${items.join(", ")}${items.length === 1 ? "," : ""})`;
const bytesText = (number) =>
  `${number.toLocaleString("en")} byte${number === 1 ? "" : "s"}`;

// --- What the reader writes ---

function parseShape(text) {
  if (!/^\s*(\(\s*\)|\(?\s*\d+\s*(,\s*\d+\s*)*,?\s*\)?)\s*$/.test(text)) {
    fail(`“${text}” is not a shape, such as 8, 16.`);
  }
  const shape = (text.match(/\d+/g) || []).map(Number);
  if (shape.length > 4) fail("The explorer draws arrays of four axes.");
  return shape;
}

function parseMesh(text) {
  const mesh = text.replace(/,\s*$/, "").split(",").map((part) => {
    const [, name, size] =
      part.match(/^\s*([A-Za-z_]\w*)\s*[=:]\s*(\d+)\s*$/) || [];
    if (!(size > 0)) {
      fail(`“${text}” is not a mesh, such as data:2, model:4.`);
    }
    return [name, Number(size)];
  });
  if (new Map(mesh).size < mesh.length) {
    fail("Two axes of the mesh have the same name.");
  }
  if (mesh.length > 3 || product(mesh.map((axis) => axis[1])) > 64) {
    fail("The explorer draws three mesh axes and 64 devices.");
  }
  return mesh;
}

// Gives a list of names for each entry of the spec.
function parseSpec(text) {
  const [, inner] = text.match(
    /^\s*P\(((?:None|"\w+"|'\w+'|[\s,()])*)\)\s*$/) || [];
  const json = `[${inner}]`.replace(/'/g, '"')
    .replace(/\bNone\b(?!")/g, "null").replace(/\(/g, "[")
    .replace(/\)/g, "]").replace(/,\s*\]/g, "]");
  let entries = [0];
  try {
    entries = JSON.parse(json);
  } catch {
    // It stays a 0, which is no name.
  }
  const spec = entries.map((entry) => [entry ?? []].flat());
  if (spec.flat().some((name) => typeof name !== "string")) {
    fail(`“${text}” is not a spec, such as P(None, ("data", "model")).`);
  }
  return spec;
}

const specText = (spec, quote = '"') => {
  const entries = spec.map((names) => {
    const quoted = names.map((name) => quote + name + quote);
    return names.length > 1 ? tuple(quoted) : quoted[0] || "None";
  });
  return `P(${entries.join(", ")})`;
};

// --- Arithmetic ---

// Refuse what JAX refuses, in the order in which it looks.
function refuse(shape, sizes, spec) {
  const used = spec.flat();
  const twice = used.find((name, i) => used.indexOf(name) < i);
  if (twice) {
    fail(`“${twice}” stands twice: a mesh axis shards one axis only.`,
      `DuplicateSpecError: … has duplicate entries for \`${twice}\``);
  }
  const unknown = used.find((name) => !sizes.has(name));
  if (unknown) {
    const names = tuple([...sizes.keys()].map((name) => `'${name}'`));
    fail(`The mesh has no axis “${unknown}”.`,
      `ValueError: … is not found in mesh: ${names}`);
  }
  const [rank, length] = [shape.length, spec.length];
  if (length > rank) {
    fail(`The spec has ${length} entries, for a rank of ${rank}.`,
      `ValueError: … only valid for values of rank at least ${length}, ` +
        `but was applied to a value of rank ${rank}`);
  }
  spec.forEach((names, axis) => {
    const parts = product(names.map((name) => sizes.get(name)));
    const size = shape[axis];
    if (size % parts) {
      fail(`Axis ${axis}: ${size} is no multiple of ${parts}.`,
        `IndivisibleError: … array axis ${axis} is partitioned ${parts} ` +
          `times, but the dimension size is ${size}`);
    }
  });
}

// A region is a [start, stop] for each axis of the array.
function layOut(shape, mesh, spec, dtype, itemsize) {
  const sizes = new Map(mesh);
  refuse(shape, sizes, spec);
  const cuts = shape.map((_, axis) => spec[axis] || []);
  const parts = cuts.map((names) =>
    product(names.map((name) => sizes.get(name))));
  const shardShape = shape.map((size, axis) => size / parts[axis]);
  const count = product([...sizes.values()]);
  const places = [...Array(count).keys()].map((device) =>
    Object.fromEntries(mesh.map(([name, size], i) => {
      const stride = product(mesh.slice(i + 1).map((axis) => axis[1]));
      return [name, Math.floor(device / stride) % size];
    })));
  const regions = places.map((place) => cuts.map((names, axis) => {
    const block = names.reduce(
      (number, name) => number * sizes.get(name) + place[name], 0);
    const start = block * shardShape[axis];
    return [start, start + shardShape[axis]];
  }));
  const bytes = product(shardShape) * itemsize;
  if (bytes * count > Number.MAX_SAFE_INTEGER) {
    fail("There are too many bytes to count.");
  }
  return {
    shape, mesh, spec, dtype, itemsize, places, cuts, shardShape, regions,
    ...slices(regions), bytes, total: bytes * count,
    copies: count / product(parts),
    over: mesh.filter(([name, size]) => size > 1 && !spec.flat()
      .includes(name)).map((axis) => axis[0]),
  };
}

// The distinct regions in the order of the array, and that of each device.
function slices(regions) {
  const found = {};
  const holds = regions.map((region, device) => {
    const part = found[region] ??= { region, devices: [] };
    part.devices.push(device);
    return part;
  });
  const parts = Object.values(found).sort(({ region: a }, { region: b }) => {
    const axis = a.findIndex((span, i) => span[0] !== b[i][0]);
    return a[axis][0] - b[axis][0];
  });
  parts.forEach((part, number) => {
    part.number = number;
    part.color = colorOf(number);
  });
  return { parts, holds };
}

// The elements that two regions have in common.
const shared = (one, other = one) => product(one.map(([a, b], axis) =>
  Math.max(0, Math.min(b, other[axis][1]) - Math.max(a, other[axis][0]))));

// Whether what cut one axis last now cuts another one last.
function swaps(from, to) {
  const sizes = new Map(from.mesh);
  const [a, b] = [from, to].map(({ cuts }) => cuts.map((names) => names
    .map((name) => (sizes.get(name) > 1 ? `${name},` : "")).join("")));
  const moved = (i, j) =>
    a[i].startsWith(b[i]) && a[j] + a[i].slice(b[i].length) === b[j];
  const [i, j, ...more] = [...a.keys()].filter((axis) => a[axis] !== b[axis]);
  return j && !more.length && (moved(i, j) || moved(j, i));
}

// What XLA makes of the move, where the tests have shown it.
function collective(from, to, total) {
  if (!total) {
    return same(from.regions, to.regions) ? "same" : "slice";
  }
  if (from.regions.every((old, device) =>
    shared(old, to.regions[device]) === shared(old))) return "all-gather";
  if (swaps(from, to)) return "all-to-all";
  const [before, after] = [from, to].map(({ regions }) =>
    regions.map(String).sort());
  return same(before, after) ? "collective-permute" : "";
}

// The bytes that each device needs and does not hold yet.
function move(from, to) {
  const received = to.regions.map((region, device) =>
    (shared(region) - shared(region, from.regions[device])) * to.itemsize);
  const total = received.reduce((a, b) => a + b);
  return { received, total, name: collective(from, to, total) };
}

// --- Words ---

function describe({ shape, shardShape, places, copies, over, ...rest }) {
  const count = places.length;
  const all = copies === count;
  const part = all ? "the" : `a slice ${tuple(shardShape)} of the`;
  const copied = `${all ? "The array" : "Each slice"} is on ${copies} ` +
    `devices: it is replicated over ${over.join(" and ")}.`;
  return `${count > 1 ? `Each of ${count} devices` : "One device"} holds ` +
    `${part} array ${tuple(shape)}, ${bytesText(rest.bytes)}; ` +
    `${bytesText(rest.total)} in all. ` +
    (copies > 1 ? copied : "Nothing is replicated.");
}

function describeMove(from, to) {
  const { received, total, name } = move(from, to);
  const most = Math.max(...received);
  const each = received.every((bytes) => bytes === most)
    ? "each device receives" : "a device receives up to";
  const how = name ? `, by ${name}` : "";
  const words = {
    same: "nothing moves",
    slice: "nothing moves: each device keeps a part of what it holds",
  }[name] || `${each} ${bytesText(most)}, ${bytesText(total)} in all${how}`;
  return ` To reach ${specText(to.spec)}, ${words}.`;
}

function code(...layouts) {
  const { shape, mesh, places } = layouts[0];
  const names = tuple(mesh.map(([name]) => `"${name}"`));
  const times = mesh.length > 1 ? ` * ${mesh.length}` : "";
  return `import jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

jax.config.update("jax_num_cpu_devices", ${places.length})
mesh = jax.make_mesh(
    ${tuple(mesh.map((axis) => axis[1]))}, ${names}, (AxisType.Auto,)${times}
)
` + layouts.map(({ spec }, i) => {
    const name = i ? "target" : "sharding";
    return `${name} = NamedSharding(mesh, ${specText(spec)})
print(${name}.shard_shape(${tuple(shape)}))
`;
  }).join("");
}

// --- Pictures ---

function ranges(ids) {
  const runs = [];
  for (const id of ids) {
    if (runs.length && id === runs.at(-1).at(-1) + 1) runs.at(-1).push(id);
    else runs.push([id]);
  }
  return runs.map((run) => run.length > 2
    ? `${run[0]}-${run.at(-1)}` : run.join(" ")).join(" ");
}

const sizesText = ({ shape, cuts }) => shape.map((size, axis) =>
  `${size}${cuts[axis][0] ? "@" : ""}${
    cuts[axis][1] ? `(${cuts[axis]})` : cuts[axis]}`);
const title = (layout) =>
  `${layout.dtype}[${sizesText(layout)}] ${specText(layout.spec, "'")}`;
const label = (layout) => [
  title(layout),
  ...layout.parts.map(({ region, devices }) =>
    `  device${devices.length > 1 ? "s" : ""} ${ranges(devices)}: ` +
    `[${region.map((span) => span.join(":")).join(", ")}]`),
].join("\n");

// The last axis that is cut runs across, so that each cut is seen.
function rowsAndColumns({ shape, shardShape }) {
  const axes = [...shape.keys()];
  const cut = axes.filter((axis) => shardShape[axis] !== shape[axis]);
  const last = axes.slice(-1);
  if (axes.length < 2) return [[], axes];
  if (cut.length > 1) return [cut.slice(0, -1), cut.slice(-1)];
  const other = cut.length && !same(cut, last);
  return [other ? cut : axes.slice(-2, -1), last];
}

// The blocks of the rows and of the columns: a cell for each slice, in the
// order of the array. A side is long enough to write in each cell.
function cells(layout) {
  const { shape, shardShape } = layout;
  const both = rowsAndColumns(layout);
  const [rows, columns] = both.map((axes) =>
    product(axes.map((axis) => shape[axis] / shardShape[axis] || 1)));
  const [high, wide] = both.map((axes) =>
    product(axes.map((axis) => shape[axis])));
  const [height, width] = [[high, rows], [wide, columns]].map(
    ([size, blocks]) => Math.min(1, Math.max(
      size / Math.max(high, wide, 1), 0.4, blocks / 14)));
  return { both, rows, columns, height, width };
}

const grid = ({ rows, columns, height, width }, scale, inner) =>
  `<div class="explorer-grid" style="grid-template: repeat(${rows}, 1fr) / ` +
  `repeat(${columns}, 1fr); height: ${height * scale}px; ` +
  `width: ${width * scale}px">${inner}</div>`;

const slice = ({ columns }, { number, color }, words) => {
  const [row, column] = [Math.floor(number / columns), number % columns];
  return `<span style="grid-area: ${row + 1} / ${column + 1}; ` +
    `background: ${color}">${words}</span>`;
};

// What runs across stands above a picture, what runs down to its left.
const framed = (across, down, picture) => `<div class="explorer-frame">` +
  `<span></span><span>${across}</span><span>${down}</span>${picture}</div>`;

function arrayPicture(layout) {
  const scale = 240;
  const paper = cells(layout);
  const [down, across] = paper.both.map((axes) =>
    axes.map((axis) => sizesText(layout)[axis]).join(" × "));
  const room = paper.width * scale / paper.columns / 7.5;
  return framed(across, down, grid(paper, scale, layout.parts.map((part) => {
    const { length } = part.devices;
    const words = ranges(part.devices);
    const short = length > 1 ? `×${length}` : "";
    return slice(paper, part, words.length > room ? short : words);
  }).join("")));
}

function devicesPicture(layout) {
  const { mesh, holds } = layout;
  const paper = cells(layout);
  // An axis of one device is no side of the picture.
  const axes = mesh.filter((axis) => axis[1] > 1);
  const names = axes.map((axis) => axis.join("="));
  const columns = Math.min(axes[1] ? axes.at(-1)[1] : 8, holds.length);
  const scale = columns > 4 || holds.length > 2 * columns ? 33 : 44;
  const tiles = holds.map((part, device) =>
    `<div>${grid(paper, scale, slice(paper, part, ""))}${device}</div>`);
  return framed(names.at(-1) || "", names.slice(0, -1).join(" "),
    `<div class="explorer-devices" style="grid-template-columns: ` +
    `repeat(${columns}, minmax(0, auto))">${tiles.join("")}</div>`);
}

// --- The page ---

function figure(layout) {
  const { shardShape, bytes, places } = layout;
  const where = places.length > 1
    ? `each of ${places.length} devices` : "one device";
  return `<figure class="shardscope-drawing">
<div role="img" aria-label="${label(layout)}">${arrayPicture(layout)}${
    devicesPicture(layout)}</div>
<figcaption><code>${title(layout)}</code>: ${tuple(shardShape)}, ${
    bytesText(bytes)} on ${where}</figcaption></figure>`;
}

const row = (tag, cells) => `<tr>${cells.map((cell) =>
  `<${tag}>${cell}</${tag}>`).join("")}</tr>`;

function table(layouts) {
  const { mesh, places, shape } = layouts[0];
  const received = layouts[1] ? move(...layouts).received : [];
  const held = ({ region, color }) => {
    const spans = region.map(([start, stop], axis) =>
      stop - start === shape[axis] ? ":" : `${start}:${stop}`);
    return `<i style="background: ${color}"></i>[${
      spans.join(", ") || "..."}]`;
  };
  const heads = ["device", ...mesh.map(([name]) => name), "holds"];
  if (layouts[1]) heads.push("then", "receives");
  const rows = places.map((place, device) => row("td", [
    device, ...Object.values(place),
    ...layouts.map(({ holds }) => held(holds[device])),
    ...received.slice(device, device + 1).map(bytesText),
  ]));
  return `<table><thead>${row("th", heads)}</thead><tbody>${
    rows.join("")}</tbody></table>`;
}

// A button for each axis of the array and of the mesh: pressed, it shards.
function showButtons(box, shape, mesh, spec) {
  const key = `${shape};${mesh}`;
  if (box.dataset.key !== key) {
    // Only then: a new button would lack the focus of the old one.
    box.dataset.key = key;
    box.innerHTML = shape.map((size, axis) => `<div role="group"
aria-label="axis ${axis}, of size ${size}, sharded over"><span>axis ${axis}: ${size
    }</span>${mesh.map(([name]) => `<button type="button"
data-axis="${axis}" data-name="${name}"></button>`).join("")}</div>`)
      .join("");
  }
  for (const button of box.querySelectorAll("button")) {
    const { axis, name } = button.dataset;
    const names = spec?.[axis] || [];
    const place = names.indexOf(name) + 1;
    button.setAttribute("aria-pressed", place > 0);
    button.innerHTML =
      name + (place && names[1] ? `<sup>${place}</sup>` : "");
  }
}

function press({ axis, name }, spec) {
  const cuts = [...spec];
  while (cuts.length <= axis) cuts.push([]);
  const others = cuts[axis].filter((each) => each !== name);
  cuts[axis] = same(others, cuts[axis]) ? [...others, name] : others;
  while (cuts.length && !cuts.at(-1).length) cuts.pop();
  return specText(cuts);
}

function start(root) {
  const find = (selector) => root.querySelector(selector);
  const form = find("form");
  const fields = form.elements;
  const link = find(".explorer-link");
  const first = [...new FormData(form)];
  const boxes = [...root.querySelectorAll(".explorer-axes")];
  let specs = [];

  const address = () => `#${new URLSearchParams(new FormData(form))}`
    .replace(/\+/g, "").replace(/%22/g, "'")
    .replace(/%(2[789C]|3A)/g, decodeURIComponent);
  const choose = () => {
    const shape = parseShape(fields.shape.value);
    const mesh = parseMesh(fields.mesh.value);
    const { spec, to } = fields;
    specs = (to.value ? [spec, to] : [spec]).map((field) =>
      parseSpec(field.value));
    boxes.forEach((box, i) => showButtons(box, shape, mesh, specs[i]));
    const [type] = fields.dtype.selectedOptions;
    if (!type) fail("This dtype is not known.");
    return specs.map((each) =>
      layOut(shape, mesh, each, type.value, Number(type.dataset.bytes)));
  };
  const show = (...layouts) => {
    find(".explorer-pictures").innerHTML = layouts.map(figure).join("");
    find(".explorer-table").innerHTML = table(layouts);
    find("pre").innerHTML = code(...layouts).replace(
      /("\w+")|\b(\d+)\b|\b(import|from|as)\b|(None)/g,
      (all, ...found) => `<span class="${
        ["s2", "mi", "kn", "kc"][found.findIndex(Boolean)]}">${all}</span>`);
    return describe(layouts[0]) +
      (layouts[1] ? describeMove(...layouts) : "");
  };
  const update = () => {
    let [answer, wrong] = ["", false];
    try {
      answer = show(...choose());
    } catch (error) {
      if (error.jax === undefined) throw error;
      wrong = true;
      answer = error.message + (error.jax && ` JAX: ${error.jax}`);
    }
    root.classList.toggle("wrong", wrong);
    find(".explorer-result").inert = wrong;
    find(".explorer-answer").textContent = answer;
    if (link) link.hash = address();
  };
  const keep = () => link || history.replaceState(null, "", address());
  const restore = () => {
    const given = new URLSearchParams(location.hash.slice(1));
    if (!link && location.hash.includes("=")) {
      for (const [name, value] of first) {
        fields[name].value = given.get(name) ?? value;
      }
      root.scrollIntoView();
    }
    update();
  };

  form.oninput = update;
  form.onchange = keep;
  form.onclick = ({ target }) => {
    const button = target.closest("button");
    if (!button) return;
    const box = boxes.findIndex((each) => each.contains(button));
    fields[box ? "to" : "spec"].value =
      press(button.dataset, specs[box] || []);
    update();
    keep();
  };
  addEventListener("hashchange", restore);
  restore();
  root.classList.add("live");
}

window.shardbook = { explorer: {
  parseShape, parseMesh, parseSpec, layOut, move, label,
} };
document.querySelectorAll(".shardbook-explorer").forEach(start);
})();
