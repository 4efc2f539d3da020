/* What budget_table and BudgetClassifier.from_scores say, in the browser.
 *
 * The site tests hold every function to the Python one whose name it has, in camel case.
 */
"use strict";

const sktopkDesk = (() => {
  // Share of the rows that only say where the precision is to be tested.
  const PLACING_FRACTION = 0.2;
  const N_BOOTSTRAPS = 500;

  // The binomial distribution, by Loader's saddle point expansion: no digits are lost at large n.

  const STIRLING = [0, 0.08106146679532726, 0.0413406959554093, 0.02767792568499834,
    0.02079067210376509, 0.01664469118982119, 0.01387612882307075, 0.01189670994589177,
    0.01041126526197209, 0.009255462182712733, 0.00833056343336287, 0.007573675487951841,
    0.00694284010720953, 0.006408994188004207, 0.005951370112758848, 0.005554733551962801];

  /** log(n!) less Stirling's approximation of it. */
  function stirlingError(n) {
    if (n < STIRLING.length) return STIRLING[n];
    const s = n * n;
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / s) / s) / s) / s) / n;
  }

  /** x log(x / m) + m - x, also where x is close to m. */
  function deviance(x, m) {
    if (Math.abs(x - m) >= 0.1 * (x + m)) return x * Math.log(x / m) + m - x;
    const v = (x - m) / (x + m);
    let sum = (x - m) * v;
    let term = 2 * x * v;
    for (let j = 1; ; j++) {
      term *= v * v;
      const next = sum + term / (2 * j + 1);
      if (next === sum) return sum;
      sum = next;
    }
  }

  function binomialMass(x, n, p) {
    if (x < 0 || x > n) return 0;
    if (p === 0 || p === 1) return x === n * p ? 1 : 0;
    if (x === 0) return Math.exp(n * Math.log1p(-p));
    if (x === n) return Math.exp(n * Math.log(p));
    const exponent = stirlingError(n) - stirlingError(x) - stirlingError(n - x)
      - deviance(x, n * p) - deviance(n - x, n * (1 - p));
    return Math.sqrt(n / (2 * Math.PI * x * (n - x))) * Math.exp(exponent);
  }

  /** P(Binomial(n, p) <= x) where x is below the mean. */
  function lowerTail(x, n, p) {
    let term = binomialMass(x, n, p);
    let sum = term;
    for (let i = x; i > 0 && term > 1e-18 * sum; i--) {
      term *= (i * (1 - p)) / ((n - i + 1) * p);
      sum += term;
    }
    return sum;
  }

  /** P(Binomial(n, p) <= x). */
  function binomialCdf(x, n, p) {
    if (x < 0) return 0;
    if (x >= n) return 1;
    if (p <= 0 || p >= 1) return p <= 0 ? 1 : 0;
    return x < n * p ? lowerTail(x, n, p) : 1 - lowerTail(n - x - 1, n, 1 - p);
  }

  /** P(Binomial(n, p) > x). */
  function binomialSf(x, n, p) {
    return binomialCdf(n - x - 1, n, 1 - p);
  }

  /** The smallest x in [0, n] at which a rising condition is true, n + 1 if it never is. */
  function firstTrue(n, condition) {
    let low = 0;
    let high = n + 1;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if (condition(middle)) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** The exact two-sided interval of a rate seen as count of n. */
  function clopperPearson(count, n, level) {
    const alpha = (1 - level) / 2;
    const solve = (rises) => {
      let [low, high] = [0, 1];
      for (let i = 0; i < 60; i++) {
        const middle = (low + high) / 2;
        if (rises(middle)) high = middle;
        else low = middle;
      }
      return (low + high) / 2;
    };
    const low = count === 0 ? 0 : solve((p) => binomialSf(count - 1, n, p) >= alpha);
    const high = count === n ? 1 : solve((p) => binomialCdf(count, n, p) <= alpha);
    return { count, n, value: count / n, low, high };
  }

  // Random numbers of a seed: two visits to a page show the same.

  function generator(seed) {
    let state = seed >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  }

  function permutation(n, random) {
    const order = Float64Array.from({ length: n }, (_, i) => i);
    for (let i = n - 1; i > 0; i--) {
      const j = Math.floor(random() * (i + 1));
      [order[i], order[j]] = [order[j], order[i]];
    }
    return order;
  }

  function drawBinomial(n, p, random) {
    const u = random();
    return firstTrue(n, (x) => binomialCdf(x, n, p) >= u);
  }

  // The table and the curve.

  /** Rows looked at and positives found after each block of rows of equal score, best first. */
  function ranking(scores, positive) {
    const order = Float64Array.from(scores, (_, i) => i).sort((a, b) => scores[b] - scores[a]);
    const lookedAt = [0];
    const found = [0];
    let hits = 0;
    order.forEach((row, i) => {
      hits += positive[row] ? 1 : 0;
      if (i + 1 === order.length || scores[order[i + 1]] !== scores[row]) {
        lookedAt.push(i + 1);
        found.push(hits);
      }
    });
    return { lookedAt, found, n: order.length, nPositive: hits };
  }

  /** The positives among the k best rows; of tied rows what a random order finds on average. */
  function foundAt(k, { lookedAt, found }) {
    const i = firstTrue(lookedAt.length - 1, (j) => lookedAt[j] >= k);
    if (i === 0) return found[0];
    if (i === lookedAt.length) return found[i - 1];
    const part = (k - lookedAt[i - 1]) / (lookedAt[i] - lookedAt[i - 1]);
    return found[i - 1] + part * (found[i] - found[i - 1]);
  }

  /** The positives among the k best rows of a bootstrap sample, for each k, and all of them. */
  function bootstrapSample(ks, ranked, random) {
    const { lookedAt, found, n, nPositive } = ranked;
    const largest = Math.max(...ks);
    const deepest = largest + 8 * Math.sqrt(largest) + 16;
    // Rows further down hardly ever come up: only how many of them are positive counts.
    const last = Math.min(firstTrue(lookedAt.length - 1, (i) => lookedAt[i] >= deepest),
      lookedAt.length - 1);
    const depth = lookedAt[last];
    const nAbove = drawBinomial(n, depth / n, random);
    const rows = new Float64Array(last + 1);
    const hits = new Float64Array(last + 1);
    for (let i = 0; i < nAbove; i++) {
      const row = Math.floor(random() * depth);
      const block = firstTrue(last, (j) => lookedAt[j] > row);
      rows[block] += 1;
      // The positives of a block are its first rows.
      if (row - lookedAt[block - 1] < found[block] - found[block - 1]) hits[block] += 1;
    }
    for (let j = 1; j <= last; j++) {
      rows[j] += rows[j - 1];
      hits[j] += hits[j - 1];
    }
    const below = n - depth;
    const nBelow = n - nAbove;
    const hitsBelow = nBelow ? drawBinomial(nBelow, (nPositive - found[last]) / below, random) : 0;
    const sample = { lookedAt: [...rows, n], found: [...hits, hits[last] + hitsBelow] };
    return { at: ks.map((k) => foundAt(k, sample)), total: hits[last] + hitsBelow };
  }

  /** Linear interpolation between the sorted values, as NumPy's. */
  function quantile(values, q) {
    const sorted = Float64Array.from(values).sort();
    const place = q * (sorted.length - 1);
    const i = Math.floor(place);
    const next = sorted[Math.min(i + 1, sorted.length - 1)];
    return sorted[i] + (place - i) * (next - sorted[i]);
  }

  /** Hits, precision and recall of each budget of the nRows of a day, with intervals. */
  function budgetTable(ranked, budgets, nRows, confidence = 0.95, seed = 0) {
    const random = generator(seed);
    const ks = budgets.map((budget) => (budget / nRows) * ranked.n);
    const samples = Array.from({ length: N_BOOTSTRAPS }, () => bootstrapSample(ks, ranked, random));
    const level = (1 - confidence) / 2;
    return budgets.map((budget, b) => {
      const at = foundAt(ks[b], ranked);
      const ends = (values) => [quantile(values, level), quantile(values, 1 - level)];
      const scaled = (unit) => ({
        value: unit * at, ends: ends(samples.map((sample) => unit * sample.at[b])),
      });
      const some = samples.filter((sample) => sample.total > 0);
      return {
        budget,
        hits: scaled(nRows / ranked.n),
        precision: scaled(1 / ks[b]),
        recall: {
          value: at / ranked.nPositive,
          ends: ends(some.map((sample) => sample.at[b] / sample.total)),
        },
      };
    });
  }

  // Thresholds with a promise.

  /** The largest x with P(Binomial(n, rate) <= x) <= delta; -1 if there is none. */
  function nErrorsAllowed(n, rate, delta) {
    return firstTrue(n, (x) => binomialCdf(x, n, rate) > delta) - 1;
  }

  /** The smallest n at which an error less could be promised: (1 - rate)^n <= delta. */
  function nRowsNeeded(rate, delta) {
    return Math.ceil(Math.log(delta) / Math.log1p(-rate));
  }

  /** A number that high exceeds and low does not: midway, or low below infinity. */
  function between(low, high) {
    const middle = low / 2 + high / 2;
    return low <= middle && middle < high ? middle : low;
  }

  const sortedOf = (scores, keep) => scores.filter((_, i) => keep(i)).sort();

  /** At most this share of all negatives above the threshold; null if nothing can be promised. */
  function fprThreshold(scores, positive, rate, delta) {
    const negative = sortedOf(scores, (i) => !positive[i]).reverse();
    const allowed = nErrorsAllowed(negative.length, rate, delta);
    if (allowed < 0) return { missing: nRowsNeeded(rate, delta), rows: "negatives" };
    const low = negative[allowed];
    const above = scores.reduce((best, s) => (s > low && s < best ? s : best), Infinity);
    return { threshold: between(low, above) };
  }

  /** At least this share of all positives above the threshold. */
  function recallThreshold(scores, positive, rate, delta) {
    const found = sortedOf(scores, (i) => positive[i]);
    const allowed = nErrorsAllowed(found.length, 1 - rate, delta);
    if (allowed < 0) return { missing: nRowsNeeded(1 - rate, delta), rows: "positives" };
    const high = found[allowed];
    const below = scores.reduce((best, s) => (s < high && s > best ? s : best), -Infinity);
    // Without a lower score every row is flagged.
    return { threshold: below === -Infinity ? below : between(below, high) };
  }

  /** How many rows and positives lie above each of some falling thresholds. */
  function countAbove(scores, positive, rows, thresholds) {
    const order = Array.from(rows).sort((a, b) => scores[b] - scores[a]);
    let [i, hits] = [0, 0];
    return thresholds.map((threshold) => {
      for (; i < order.length && scores[order[i]] > threshold; i++) hits += positive[order[i]];
      return { n: i, hits };
    });
  }

  /** At least this share of the rows above the threshold positive, tested as order says. */
  function precisionThreshold(scores, positive, rate, delta, order) {
    const nPlacing = Math.ceil(PLACING_FRACTION * scores.length);
    const [placing, testing] = [order.slice(0, nPlacing), order.slice(nPlacing)];
    const candidates = [...new Set(Array.from(placing, (row) => scores[row]))]
      .sort((a, b) => b - a);
    const thresholds = candidates.slice(1).map((low, i) => low + (candidates[i] - low) / 2);
    const needed = nRowsNeeded(1 - rate, delta);
    if (!thresholds.length || testing.length < needed) {
      return { missing: needed, rows: "rows above, all positive, beside a fifth of the rows" };
    }
    // Evidence that the precision is too low: small where it is not.
    const evidence = ({ n, hits }) => binomialSf(hits - 1, n, rate);
    const placed = countAbove(scores, positive, placing, thresholds).map(evidence);
    const first = placed.indexOf(Math.min(...placed));
    const tested = countAbove(scores, positive, testing, thresholds.slice(first));
    const failed = tested.findIndex((above) => evidence(above) > delta);
    const nPassed = failed < 0 ? tested.length : failed;
    if (!nPassed) return { unshown: tested[0] };
    return { threshold: thresholds[first + nPassed - 1] };
  }

  /** What a threshold does to the rows: named rates with their intervals. */
  function calibrationRates(scores, positive, threshold, level) {
    let [flagged, hits, positives] = [0, 0, 0];
    scores.forEach((score, i) => {
      positives += positive[i];
      if (score > threshold) {
        flagged += 1;
        hits += positive[i];
      }
    });
    const n = scores.length;
    const rates = { flagged: [flagged, n], fpr: [flagged - hits, n - positives],
      recall: [hits, positives], precision: [hits, flagged] };
    return Object.fromEntries(Object.entries(rates).filter(([, [, rows]]) => rows)
      .map(([name, [count, rows]]) => [name, clopperPearson(count, rows, level)]));
  }

  // Files.

  /** Rows of cells of comma, semicolon or tab separated text, the first line with the names. */
  function parseTable(text) {
    const content = text.replace(/^\ufeff/, "");
    const head = content.split(/\r?\n/, 1)[0];
    const separators = [",", ";", "\t"];
    const count = (separator) => head.split(separator).length;
    const separator = separators.reduce((a, b) => (count(b) > count(a) ? b : a));
    const rows = [];
    let [row, cell, quoted] = [[], "", false];
    const endCell = () => {
      row.push(cell.trim());
      cell = "";
    };
    const endRow = () => {
      endCell();
      if (row.length > 1 || row[0] !== "") rows.push(row);
      row = [];
    };
    for (let i = 0; i < content.length; i++) {
      const char = content[i];
      if (quoted) {
        if (char !== '"') cell += char;
        else if (content[i + 1] === '"') cell += content[++i];
        else quoted = false;
      } else if (char === '"' && cell.trim() === "") [cell, quoted] = ["", true];
      else if (char === separator) endCell();
      else if (char === "\n") endRow();
      else if (char !== "\r") cell += char;
    }
    endRow();
    if (quoted) throw new Error("The file ends inside a quoted cell.");
    if (rows.length < 2) throw new Error("The file must have a line of names and rows below it.");
    const names = rows.shift();
    const wrong = rows.findIndex((cells) => cells.length !== names.length);
    if (wrong >= 0) {
      throw new Error(`Row ${wrong + 1} has ${rows[wrong].length} cells, the line of names `
        + `${names.length}.`);
    }
    return { names, rows, decimal: separator === "," ? "." : "," };
  }

  /** A number of a cell, with a decimal comma where commas do not separate cells; else NaN. */
  function numberOf(cell, decimal) {
    const text = decimal === "," && !cell.includes(".") ? cell.replace(",", ".") : cell;
    return text === "" ? NaN : Number(text);
  }

  /** The scores in a column: finite, of every row. */
  function scoresOf(table, column) {
    const scores = Float64Array.from(table.rows, (row) => numberOf(row[column], table.decimal));
    const wrong = scores.findIndex((score) => !Number.isFinite(score));
    if (wrong >= 0) {
      throw new Error(`Scores must be finite numbers; row ${wrong + 1} of `
        + `“${table.names[column]}” has “${table.rows[wrong][column]}”.`);
    }
    return scores;
  }

  const TOLD = ["0 1", "-1 1", "0.0 1.0", "-1.0 1.0", "False True", "false true", "FALSE TRUE"];

  /** The two labels in a column, the positive one first: 1 or True, of other labels the rarer. */
  function labelsOf(table, column) {
    const count = new Map();
    table.rows.forEach((row) => count.set(row[column], (count.get(row[column]) ?? 0) + 1));
    if (count.has("")) {
      const wrong = table.rows.findIndex((row) => row[column] === "");
      throw new Error(`Every row must have a label; row ${wrong + 1} of `
        + `“${table.names[column]}” has none.`);
    }
    if (count.size !== 2) {
      throw new Error(`Labels must be two; “${table.names[column]}” has ${count.size}.`);
    }
    const sorted = [...count.keys()].sort();
    if (TOLD.includes(sorted.join(" "))) return sorted.reverse();
    return [...count].sort((a, b) => a[1] - b[1]).map(([label]) => label);
  }

  /** The area under the ROC curve: below a half the scores say the other label. */
  function area({ lookedAt, found, n, nPositive }) {
    let sum = 0;
    for (let i = 1; i < found.length; i++) {
      const negatives = lookedAt[i] - lookedAt[i - 1] - found[i] + found[i - 1];
      sum += (negatives * (found[i] + found[i - 1])) / 2;
    }
    return sum / (nPositive * (n - nPositive));
  }

  return { area, binomialCdf, binomialSf, budgetTable, calibrationRates, clopperPearson,
    fprThreshold, foundAt, generator, labelsOf, nErrorsAllowed, numberOf, parseTable, permutation,
    precisionThreshold, ranking, recallThreshold, scoresOf };
})();
