/* The page of the desk: a file of scores and labels, and what they promise. */
"use strict";

(() => {
  const desk = sktopkDesk;
  const element = (id) => document.getElementById(`desk-${id}`);
  const percent = (share) => `${(100 * share).toFixed(1)}\u00a0%`;
  const digits = (value) => Number(value.toPrecision(6)).toString();
  let table = null;

  function show(message) {
    element("message").textContent = message;
    element("message").hidden = !message;
  }

  function options(id, names, chosen) {
    element(id).replaceChildren(...names.map((name, i) => {
      const option = document.createElement("option");
      [option.value, option.textContent, option.selected] = [i, name, i === chosen];
      return option;
    }));
  }

  /** Take the columns as they are likely meant: labels in one of two values, scores in another. */
  function open(text, name) {
    try {
      table = desk.parseTable(text);
      const values = table.names.map((_, i) => new Set(table.rows.map((row) => row[i])));
      const likely = (pattern, fits) => {
        const named = (_, i) => pattern.test(table.names[i]);
        const ways = [(_, i) => named(_, i) && fits(i), (_, i) => fits(i), named];
        return ways.map((way) => table.names.findIndex(way)).find((i) => i >= 0) ?? 0;
      };
      const label = likely(/label|true|target|^y$|class|fraud|hit/i, (i) => values[i].size === 2);
      const score = likely(/score|prob|pred|decision/i, (i) => i !== label
        && [...values[i]].every((cell) => Number.isFinite(desk.numberOf(cell, table.decimal))));
      options("score", table.names, score);
      options("label", table.names, label);
      element("n-rows").value = table.rows.length;
      element("file-name").textContent = `${name}: ${table.rows.length} rows`;
      chooseLabels();
    } catch (error) {
      fail(error);
    }
  }

  function chooseLabels() {
    try {
      options("positive", desk.labelsOf(table, Number(element("label").value)), 0);
      update();
    } catch (error) {
      fail(error);
    }
  }

  function fail(error) {
    element("answer").hidden = true;
    element("choices").hidden = table === null;
    show(error.message);
  }

  /** A number of an input; an error that names it and what is allowed. */
  function number(id, name, low, high, unit = 1) {
    const value = desk.numberOf(element(id).value.trim(), ",") / unit;
    if (!(value > low && value < high)) {
      throw new Error(`${name} must lie between ${low * unit} and ${high * unit}; got `
        + `“${element(id).value}”.`);
    }
    return value;
  }

  function count(text, name, most) {
    const value = Number(text);
    if (!(Number.isInteger(value) && value >= 1 && value <= most)) {
      throw new Error(`${name} must be whole numbers of at least 1`
        + `${most < Infinity ? ` and at most the ${most} rows of a day` : ""}; got “${text}”.`);
    }
    return value;
  }

  function update() {
    if (table === null) return;
    try {
      const positiveLabel = element("positive").selectedOptions[0].textContent;
      const column = Number(element("label").value);
      const scores = desk.scoresOf(table, Number(element("score").value));
      const positive = Uint8Array.from(table.rows, (row) => (row[column] === positiveLabel ? 1 : 0));
      const nRows = count(element("n-rows").value, "Rows of a day", Infinity);
      const budgets = element("budgets").value.split(/[\s,;]+/).filter((text) => text)
        .map((text) => count(text, "Budgets", nRows));
      if (!budgets.length) throw new Error("Budgets must be one or more numbers.");
      const confidence = number("confidence", "The confidence", 0, 1, 100);
      const ranked = desk.ranking(scores, positive);
      const ranks = desk.area(ranked);
      show(ranks < 0.4 ? `These scores rank “${positiveLabel}” below the other label (area under `
        + `the ROC curve ${ranks.toFixed(2)}): are they scores of the other one?` : "");
      const rows = desk.budgetTable(ranked, budgets, nRows, confidence);
      element("table").tBodies[0].replaceChildren(...rows.map(tableRow));
      draw(ranked, rows, nRows);
      const promises = Object.entries(PROMISES).map(([id, promise]) => promiseRow(id, promise,
        scores, positive, number(id, promise.name, 0, 1, 100), confidence));
      element("promises").tBodies[0].replaceChildren(...promises);
      element("choices").hidden = false;
      element("answer").hidden = false;
    } catch (error) {
      fail(error);
    }
  }

  function cells(texts) {
    const row = document.createElement("tr");
    row.replaceChildren(...texts.map((text) => {
      const cell = document.createElement("td");
      cell.textContent = text;
      return cell;
    }));
    return row;
  }

  function tableRow({ budget, hits, precision, recall }) {
    const [low, high] = hits.ends;
    const share = ({ value, ends }) => `${percent(value)} (${percent(ends[0])} to `
      + `${percent(ends[1])})`;
    return cells([budget, `${hits.value.toFixed(1)} (${low.toFixed(1)} to ${high.toFixed(1)})`,
      share(precision), share(recall)]);
  }

  const PROMISES = {
    fpr: {
      name: "False alarms",
      text: (rate) => `at most ${percent(rate)} of the negatives are flagged`,
      find: desk.fprThreshold,
    },
    recall: {
      name: "Recall",
      text: (rate) => `at least ${percent(rate)} of the positives are flagged`,
      find: desk.recallThreshold,
    },
    precision: {
      name: "Precision",
      text: (rate) => `at least ${percent(rate)} of the flagged rows are positive`,
      find: (scores, positive, rate, delta) => desk.precisionThreshold(scores, positive, rate,
        delta, desk.permutation(scores.length, desk.generator(0))),
    },
  };

  function promiseRow(id, { text, find }, scores, positive, rate, confidence) {
    const found = find(scores, positive, rate, 1 - confidence);
    const promise = `${text(rate)}, with probability ${percent(confidence)}`;
    if (found.missing) {
      return cells([promise, "none", `needs at least ${found.missing} ${found.rows}`]);
    }
    if (found.unshown) {
      const { n, hits } = found.unshown;
      return cells([promise, "none", "cannot be shown: above the most promising threshold "
        + `${hits} of ${n} rows are positive`]);
    }
    const rates = desk.calibrationRates(scores, positive, found.threshold, confidence);
    const seen = ["flagged", "fpr", "recall", "precision"].filter((name) => rates[name])
      .map((name) => `${name === "fpr" ? "false alarms" : name} ${percent(rates[name].value)}`);
    const threshold = Number.isFinite(found.threshold) ? digits(found.threshold) : "every row";
    return cells([promise, threshold, seen.join(", ")]);
  }

  function svg(name, attributes, text) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    Object.entries(attributes).forEach(([key, value]) => node.setAttribute(key, value));
    if (text !== undefined) node.textContent = text;
    return node;
  }

  /** Round steps that divide a length into four to eight parts. */
  function ticks(most) {
    const step = 10 ** Math.floor(Math.log10(most / 4));
    const unit = [1, 2, 5, 10].map((f) => f * step).find((u) => most / u <= 8);
    return Array.from({ length: Math.floor(most / unit) + 1 }, (_, i) => i * unit);
  }

  /** Positives found in a day over rows looked at, up to three times the largest budget. */
  function draw(ranked, rows, nRows) {
    const [width, height, left, bottom, top, right] = [640, 360, 64, 48, 12, 16];
    const scale = nRows / ranked.n;
    const mostRows = Math.min(nRows, 3 * Math.max(...rows.map((row) => row.budget)));
    const ideal = (k) => Math.min(k, ranked.nPositive * scale);
    const at = (k) => desk.foundAt(k / scale, ranked) * scale;
    const mostHits = Math.max(ideal(mostRows), 1) * 1.04;
    const x = (k) => left + (k / mostRows) * (width - left - right);
    const y = (hits) => height - bottom - (hits / mostHits) * (height - bottom - top);
    const ks = Array.from({ length: 401 }, (_, i) => (i * mostRows) / 400);
    const line = (f) => ks.map((k, i) => `${i ? "L" : "M"}${x(k).toFixed(2)} ${y(f(k)).toFixed(2)}`)
      .join("");
    const chart = element("chart");
    chart.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const parts = [];
    ticks(mostHits).forEach((hits) => parts.push(
      svg("line", { x1: left, x2: width - right, y1: y(hits), y2: y(hits), class: "grid" }),
      svg("text", { x: left - 8, y: y(hits) + 4, "text-anchor": "end" }, digits(hits)),
    ));
    ticks(mostRows).forEach((k) => parts.push(
      svg("text", { x: x(k), y: height - bottom + 18, "text-anchor": "middle" }, digits(k)),
    ));
    parts.push(
      svg("path", { d: line(ideal), class: "ideal" }),
      svg("path", { d: line((k) => (k * ranked.nPositive) / ranked.n), class: "chance" }),
      svg("path", { d: line(at), class: "curve" }),
      svg("text", { x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle" },
        "rows looked at in a day"),
      svg("text", { transform: `translate(14 ${(height - bottom + top) / 2}) rotate(-90)`,
        "text-anchor": "middle" }, "positives found"),
    );
    rows.forEach(({ budget, hits }) => parts.push(
      svg("line", { x1: x(budget), x2: x(budget), y1: y(hits.ends[0]), y2: y(hits.ends[1]),
        class: "error" }),
      svg("circle", { cx: x(budget), cy: y(hits.value), r: 4, class: "point" }),
    ));
    chart.replaceChildren(...parts);
    chart.setAttribute("aria-label", `Positives found over rows looked at: ${rows.map((row) =>
      `${row.hits.value.toFixed(1)} at ${row.budget}`).join(", ")}`);
  }

  /** Scores of 10 000 payments, of which one in fifty is a fraud: half of these score higher. */
  function example() {
    const random = desk.generator(1);
    const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    const lines = ["score,fraud"];
    for (let i = 0; i < 10000; i++) {
      const fraud = random() < 0.02 ? 1 : 0;
      lines.push(`${(normal() + 2.5 * fraud).toFixed(4)},${fraud}`);
    }
    return lines.join("\n");
  }

  function read(file) {
    file.text().then((text) => open(text, file.name), fail);
  }

  document.addEventListener("DOMContentLoaded", () => {
    element("file").addEventListener("change", (event) => {
      if (event.target.files.length) read(event.target.files[0]);
    });
    element("example").addEventListener("click", () => open(example(), "Example"));
    element("label").addEventListener("change", chooseLabels);
    element("settings").addEventListener("change", (event) => {
      if (event.target !== element("label")) update();
    });
    element("settings").addEventListener("submit", (event) => event.preventDefault());
    const drop = element("drop");
    ["dragover", "drop"].forEach((name) => drop.addEventListener(name, (event) => {
      event.preventDefault();
      if (name === "drop" && event.dataTransfer.files.length) read(event.dataTransfer.files[0]);
    }));
  });
})();
