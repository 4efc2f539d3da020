"""Load damaged and forged model files: no crash, no hang, no code run, memory bounded.

Files of fitted estimators are mutated in three ways: as bytes (flipped bits, truncation,
insertions, huge declared sizes), as what they say (classes, numbers, keys, steps, which estimator
refers to which), and in the shapes of their arrays, for the most part with the checksum made right
again, as a forger would. Each is loaded in a process whose memory is limited, under an audit hook
that sees code run, files written and processes started, and with a limit of time. A file must be
refused with a ValueError or load; what loads also predicts and trains on, by partial_fit.
"""

import argparse
import collections
import copy
import hashlib
import json
import math
import os
import random
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import torch
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_blobs
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)

from sktopk import BudgetClassifier, RecallAtKClassifier, SetClassifier, TopKClassifier
from sktopk.io import dump, load

MEMORY = 512 * 2**20
# Of a file, to load it, to predict and to train on: of the processor, and by the clock, which
# goes on while others compute.
SECONDS, CLOCK = 5, 60
BLANK = "0" * 64
SIZES = {"BOOL": 1, "U8": 1, "I8": 1, "I32": 4, "U32": 4, "I64": 8, "F16": 2, "F32": 4, "F64": 8}
# Of the interpreter's own events, those that mean that something was run, started or written.
FORBIDDEN = re.compile(
    r"exec|import|code\.__new__|pickle|marshal|ctypes|socket|subprocess|shutil|tempfile|webbrowser"
    r"|os\.(system|exec|fork|spawn|posix_spawn|startfile|remove|rename|rmdir|mkdir|link|symlink"
    r"|chmod|chown|kill|putenv)"
)
VALUES = [
    None, True, -1, 0, 1, 3, 2**31, 2**63, 10**30, 0.5, "", "cuda:0", "__class__", "eval", [], {},
    [[]], {"tuple": []}, {"array": "0"}, {"array": "999"}, {"same": 0}, {"same": 10**9},
    {"float": "nan"}, {"float": "inf"}, {"estimator": "TopKClassifier"}, {"optimizer": "Adam"},
    {"optimizer": "__loader__"}, {"record": "Popen", "fields": []}, {"omitted": "module"},
    {"scalar": "object_", "value": 1}, {"numbers": "0"}, {"scalars": "0"}, {"dtype": "O"},
    {"bytes": "0", "dtype": "<U4"}, {"type": "eval"}, {"slice": [1, 2, 3]}, {"same": 1},
    {"rows": [["a"], [[1, 2]]]}, {"estimator": "Pipeline", "params": {"steps": []}, "fitted": {}},
    {"objects": [1, 2], "shape": [2**40]}, {"tuple": [10**9, 10**9]}, {"device": "cuda:99"},
    {"dict": [[1], [2]]}, {"dict": [[[]], [1]]}, {"random_state": {"dict": [[], []]}},
]  # fmt: skip


def models():
    """Small fitted estimators that together use all of the format."""
    X, y = make_blobs(120, centers=3, n_features=4, random_state=0)
    names = np.array(["a", "b", "ä"], dtype=object)[y]
    top = RecallAtKClassifier(k=10, hidden_layer_sizes=(3,), max_epochs=2, batch_size=32)
    many = TopKClassifier(
        "noised_topk",
        k=1,
        hidden_layer_sizes=(3,),
        max_epochs=2,
        calibration="sigmoid",
        random_state=np.random.RandomState(0),
    )
    yield X, many.fit(X, names), names
    yield X, make_pipeline(StandardScaler(), PCA(2), top).fit(X, y > 0), y > 0
    frozen = FrozenEstimator(top.fit(X, y > 0))
    budget = BudgetClassifier(frozen, constraint="fpr", budget=0.2)
    yield X, budget.fit(X, y > 0), y > 0
    yield X, SetClassifier(many, method="pas", random_state=0).fit(X, names.astype(str)), names
    columns = make_column_transformer(
        (make_pipeline(StandardScaler(), PolynomialFeatures(2)), [0, 1]),
        (KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf"), [2]),
        (OneHotEncoder(handle_unknown="ignore"), [3]),
    )
    adagrad = TopKClassifier(
        k=1, hidden_layer_sizes=(3,), max_epochs=2, optimizer=torch.optim.Adagrad
    )
    yield X.round(), make_pipeline(columns, adagrad).fit(X.round(), y), y
    words = np.array([" ".join(np.array(["one", "two", "three"])[row]) for row in y[:, None]])
    sgd = TopKClassifier(
        k=1, hidden_layer_sizes=(), max_epochs=2, optimizer="sgd",
        net_params={"optimizer__momentum": 0.9},
    )  # fmt: skip
    yield words, make_pipeline(TfidfVectorizer(), sgd).fit(words, y), y


def seal(data):
    """Make the checksum right again."""
    size = int.from_bytes(data[:8], "little")
    found = re.search(rb'"sha256":"([0-9a-f]{64})"', data[8 : 8 + size])
    if found is None:
        return data
    start = 8 + found.start(1)
    blank = data[:start] + BLANK.encode() + data[start + 64 :]
    return data[:start] + hashlib.sha256(blank).hexdigest().encode() + data[start + 64 :]


def pack(header, body):
    """A file of a header and arrays."""
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body


def places(value, path=()):
    """Paths to everything inside nested lists and dicts."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def estimators(value):
    """All dicts inside nested lists and dicts that stand for an estimator."""
    if isinstance(value, dict) and {"estimator", "params"} <= value.keys():
        yield value
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from estimators(item)


def mutate_json(value, rng):
    """Change something, somewhere."""
    found = list(places(value))[1:]
    if not found:
        return
    path, owner = rng.choice(found), value
    for key in path[:-1]:
        owner = owner[key]
    key, old = path[-1], owner[path[-1]]
    action = rng.randrange(5)
    if action == 0:
        del owner[key]
    elif action == 1 and isinstance(owner, list):
        owner.insert(key, copy.deepcopy(rng.choice([*VALUES, old])))
    elif action == 2 and isinstance(old, int | float):
        owner[key] = rng.choice([old + 1, old - 1, -old, old * 2**20, old * 2**50, float(old)])
    elif action == 3 and isinstance(owner, dict):
        owner[rng.choice(["net_", "k", "__setstate__", "device", "x"])] = owner.pop(key)
    else:
        owner[key] = copy.deepcopy(rng.choice(VALUES))


def forge(data, rng):
    """Change what a file says: its description or its table of arrays."""
    size = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        if rng.random() < 0.8:
            content = json.loads(header["__metadata__"]["content"])
            mutate_json(content, rng)
            header["__metadata__"]["content"] = json.dumps(content)
        else:
            table = {key: value for key, value in header.items() if key != "__metadata__"}
            if table:
                mutate_json(table, rng)
            header = {"__metadata__": header["__metadata__"], **table}
    return pack(header, body)


def nest(data, rng):
    """A description that is nested deeply, or long."""
    size = int.from_bytes(data[:8], "little")
    header, depth = json.loads(data[8 : 8 + size]), rng.choice([10**3, 10**5])
    text = rng.choice(["[" * depth + "]" * depth, "[" + "[]," * depth + "0]", "9" * depth])
    header["__metadata__"]["content"] = f'{{"model":{text},"omitted":[]}}'
    return pack(header, data[8 + size :])


def refer(data, rng):
    """Let estimators stand for each other, be there again or hold each other."""
    size = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    content = json.loads(header["__metadata__"]["content"])
    for _ in range(rng.choice([1, 2, 10, 30])):
        found = list(estimators(content))
        one, other = rng.choice(found), rng.choice(found)
        action = rng.randrange(4)
        if action == 0:
            reference = {"same": rng.randrange(len(found) + 1)}
            one["params"][rng.choice(["estimator", "memory", "steps", "x"])] = reference
        elif action == 1:
            twice = copy.deepcopy(one)
            one.clear()
            steps = [{"tuple": ["a", twice]}, {"tuple": ["b", {"same": rng.randrange(30)}]}]
            one |= {"estimator": "Pipeline", "params": {"steps": steps}, "fitted": {}}
        elif action == 2:
            one["estimator"] = other["estimator"]
        else:
            part = rng.choice(["params", "fitted"])
            one[part] = copy.deepcopy(other.get(part, {}))
        if len(json.dumps(content)) > 2**20:
            break
    header["__metadata__"]["content"] = json.dumps(content)
    return pack(header, body)


def reshape(data, rng):
    """Give arrays another shape or dtype: (), (n, 0), one more or less, all zeros or ones."""
    size = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    keys = [key for key in header if key != "__metadata__"]
    for _ in range(rng.choice([1, 1, 2])):
        key = rng.choice(keys)
        entry = header[key]
        shape, dtype = entry["shape"], entry["dtype"]
        n = rng.choice([0, 1, 3, 2**20, 20_000_000, 2**40])
        shape = rng.choice(
            [[], [1], [n, 0], [0, n], [*shape, 1], [k + 1 for k in shape], shape[:-1], shape[::-1]]
        )
        dtype = rng.choice([dtype] * 4 + list(SIZES))
        n_bytes = math.prod(shape) * SIZES[dtype]
        if n_bytes > 2**20:
            continue
        first, last = entry["data_offsets"]
        fill = rng.choice([b"\0", b"\1", b"\xff"]) * n_bytes
        new = (body[first:last] + fill)[:n_bytes] if rng.random() < 0.5 else fill
        for value in header.values():
            offsets = value.get("data_offsets")
            if offsets and offsets[0] >= last and value is not entry:
                value["data_offsets"] = [each + n_bytes - (last - first) for each in offsets]
        body = body[:first] + new + body[last:]
        entry |= {"shape": shape, "dtype": dtype, "data_offsets": [first, first + n_bytes]}
    return pack(header, body)


def damage(data, rng):
    """Change bytes."""
    data, action = bytearray(data), rng.randrange(7)
    place = rng.randrange(len(data)) if data else 0
    if action == 0:
        for _ in range(rng.choice([1, 1, 2, 10, 100])):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif action == 1:
        del data[place:]
    elif action == 2:
        data[place:place] = rng.randbytes(rng.choice([1, 8, 1000]))
    elif action == 3:
        del data[place : place + rng.choice([1, 8, 1000])]
    elif action == 4:
        huge = rng.choice([0, 1, 2**24, 2**24 + 1, 2**32, 2**63 - 1, 2**64 - 1, len(data)])
        data[:8] = struct.pack("<Q", huge)
    elif action == 5:
        data[place : place + 64] = bytes(len(data[place : place + 64]))
    else:
        numbers = list(re.finditer(rb"\d+", data))
        if numbers:
            found = rng.choice(numbers)
            data[found.start() : found.end()] = str(rng.choice([2**31, 2**62, 10**25])).encode()
    return bytes(data)


def mutated(data, rng):
    """One mutated file and what was done to it."""
    kind = rng.choice(
        ["bytes", "bytes, sealed", "forged", "forged", "forged", "references", "shapes", "shapes",
         "nested"]
    )  # fmt: skip
    if kind == "bytes":
        return damage(data, rng), kind
    change = {
        "bytes, sealed": damage,
        "forged": forge,
        "references": refer,
        "shapes": reshape,
        "nested": nest,
    }[kind]
    return seal(change(data, rng)), kind


class Watch:
    """An audit hook that notes forbidden events while it is on."""

    def __init__(self):
        self.on, self.seen = False, []
        sys.addaudithook(self)

    def __call__(self, event, args):
        if not self.on:
            return
        writes = event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+")
        text = f"{event} {args!r:.200}"
        # Torch's own compiler looks for its folder where a file says compile=True.
        if (FORBIDDEN.match(event) or writes) and "torchinductor" not in text:
            self.seen.append(text)


def too_long(signum, frame):
    raise BaseException("a file took too long")


def reason_of(error):
    text = str(error).split(" cannot be loaded: ")[-1]
    return re.sub(r"[\d.'\"\[\(].*", "", text)[:40].strip() or "other"


def work(n_files, seed, kept=None):
    """Load `n_files` mutated files and print what came of it, as JSON."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rng, watch = random.Random(seed), Watch()
    outcomes, slowest = collections.Counter(), 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        seeds = []
        for X, model, y in models():
            dump(model, path)
            repr(model)
            seeds.append((X[:5], y[:5], path.read_bytes()))
            # What is imported on demand is imported now.
            attempt(seeds[-1][2], *seeds[-1][:2], path)
        torch.nn.Linear(1, 1).compile()
        for change in (damage, forge, refer, reshape, nest):
            attempt(seal(change(seeds[1][2], rng)), *seeds[1][:2], path)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        signal.signal(signal.SIGALRM, too_long)
        signal.signal(signal.SIGPROF, too_long)
        for number in range(n_files):
            X, y, data = seeds[rng.randrange(len(seeds))]
            data, kind = mutated(data, rng)
            if kept is not None:
                # What a crash leaves behind tells what it was.
                Path(kept).write_bytes(data)
            start = process_time()
            signal.alarm(CLOCK)
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                outcome = attempt(data, X, y, path, watch)
            except BaseException as error:
                outcome = f"FAILED: {type(error).__name__} {error}"
            signal.alarm(0)
            signal.setitimer(signal.ITIMER_PROF, 0)
            slowest = max(slowest, process_time() - start)
            if watch is not None and watch.seen:
                outcome = f"FAILED: {watch.seen!r:.2000}"
                watch.seen.clear()
            if outcome.startswith("FAILED"):
                print(f"file {number} of --seed {seed} ({kind}): {outcome}", file=sys.stderr)
                outcome = "FAILED"
            outcomes[f"{kind} | {outcome}"] += 1
        growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps({"outcomes": outcomes, "slowest": slowest, "growth": growth / 1024}))


def attempt(data, X, y, path, watch=None):
    """Load a file, predict and train on; say what came of it."""
    path.write_bytes(data)
    before = resident()
    if watch is not None:
        watch.on = True
    try:
        model = load(path)
    except ValueError as error:
        return too_large(before, data) or reason_of(error)
    finally:
        if watch is not None:
            watch.on = False
    outcome = too_large(before, data)
    if outcome is not None:
        return outcome
    try:
        model.predict(X)
    except Exception as error:
        return f"loads, then {type(error).__name__} of predict: {reason_of(error)}"
    try:
        train_on(model, X, y)
    except Exception as error:
        text = f"{type(error).__name__} of partial_fit: {reason_of(error)}"
        return f"loads and predicts, then {text}"
    return "loads, predicts and trains on"


def train_on(model, X, y):
    """Train the network inside a model for another epoch."""
    while not hasattr(model, "partial_fit"):
        if hasattr(model, "steps"):
            for _, step in model.steps[:-1]:
                X = step.transform(X)
            model = model.steps[-1][1]
        else:
            model = getattr(model, "estimator_", None) or model.estimator
    if getattr(model, "calibration", None) is not None:
        # Which is for fit alone.
        model.set_params(calibration=None)
    # In the labels that it knows.
    model.partial_fit(X, model.classes_[np.arange(len(y)) % len(model.classes_)])


def resident():
    """Memory in use, from which on the highest is noted."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def memory(name):
    return int(re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())[1]) * 1024


def too_large(before, data):
    grown = memory("VmHWM") - before
    if grown > 10 * len(data) + 100 * 2**20:
        return f"FAILED: {grown >> 20} MiB for a file of {len(data)} bytes"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-files", type=int, default=20_000)
    parser.add_argument("--chunk", type=int, default=2_000, help="files of one process")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--keep", help="where to leave the file that is being loaded, of each seed")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args.n_files, args.seed, args.keep)
        return
    outcomes, slowest, growth, crashed = collections.Counter(), 0.0, 0.0, 0
    start = perf_counter()

    def chunk(first):
        n_files = min(args.chunk, args.n_files - first)
        seed = args.seed + first // args.chunk
        command = [sys.executable, __file__, "--worker", f"--n-files={n_files}", f"--seed={seed}"]
        command += [] if args.keep is None else [f"--keep={args.keep}-{seed}"]
        return seed, subprocess.run(command, stdout=subprocess.PIPE, text=True)

    with ThreadPoolExecutor(args.jobs) as pool:
        chunks = list(pool.map(chunk, range(0, args.n_files, args.chunk)))
    for seed, done in chunks:
        if done.returncode:
            print(f"--seed {seed} ended with {done.returncode}")
            crashed += 1
            continue
        result = json.loads(done.stdout.splitlines()[-1])
        outcomes.update(result["outcomes"])
        slowest, growth = max(slowest, result["slowest"]), max(growth, result["growth"])
    n_failed = sum(n for what, n in outcomes.items() if what.endswith("FAILED"))
    n_loaded = sum(n for what, n in outcomes.items() if "| loads" in what)
    total = sum(outcomes.values())
    print(
        f"{total} files: {total - n_loaded - n_failed} refused, {n_loaded} loaded, {n_failed} "
        f"failed; {crashed} processes crashed; slowest {slowest:.2f} s; memory grew by at most "
        f"{growth:.0f} MiB (limit {MEMORY >> 20}); {perf_counter() - start:.0f} s in all\n"
    )
    print("| mutation | outcome | files |\n|---|---|---|")
    for what, n in sorted(outcomes.items(), key=lambda item: -item[1])[:60]:
        print(f"| {what} | {n} |")
    sys.exit(bool(crashed or n_failed or total < args.n_files))


if __name__ == "__main__":
    main()
