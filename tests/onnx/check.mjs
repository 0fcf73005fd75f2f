// Runs each NAME.onnx of a folder with onnxruntime on the inputs in NAME.json, and compares its outputs with
// those in the file: each element within 1e-5 of the largest (at least 1). Ends with what passed and failed.
//
//   node check.mjs DIR MODULES      MODULES: the node_modules folder that holds onnxruntime-node
import {readdirSync, readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {join, resolve} from 'node:path';

const [dir, modules] = process.argv.slice(2).map(path => resolve(path));
const ort = createRequire(join(modules, 'x.js'))('onnxruntime-node');
const arrays = {float32: Float32Array, int64: BigInt64Array, bool: Uint8Array};

const tensor = ({dtype, dims, data}) =>
  new ort.Tensor(dtype, arrays[dtype].from(dtype === 'int64' ? data.map(BigInt) : data), dims);

/** The largest difference of `got` from `want`, relative to the largest element of `want` (at least 1). */
function difference(got, want) {
  if (got.dims.join() !== want.dims.join()) throw Error(`dims ${got.dims}, expected ${want.dims}`);
  const scale = Math.max(1, ...want.data.map(Math.abs));
  const differences = want.data.map((x, i) => Math.abs(x - got.data[i]) / scale);
  if (!differences.every(Number.isFinite)) throw Error('values that are not finite');
  return Math.max(...differences);
}

async function check(name) {
  const session = await ort.InferenceSession.create(join(dir, name + '.onnx'));
  const cases = JSON.parse(readFileSync(join(dir, name + '.json')));
  let largest = 0;
  for (const {inputs, outputs} of cases) {
    const feeds = Object.fromEntries(Object.entries(inputs).map(([key, x]) => [key, tensor(x)]));
    const got = await session.run(feeds);
    if (Object.keys(got).sort().join() !== Object.keys(outputs).sort().join())
      throw Error(`outputs ${Object.keys(got)}, expected ${Object.keys(outputs)}`);
    for (const [key, want] of Object.entries(outputs))
      largest = Math.max(largest, difference(got[key], want));
  }
  if (largest > 1e-5) throw Error(`differs by ${largest}`);
  return largest;
}

const names = readdirSync(dir).filter(file => file.endsWith('.onnx')).map(file => file.slice(0, -5));
let passed = 0, failed = 0;
for (const name of names.sort()) {
  try {
    console.log(`${name}: within ${(await check(name)).toExponential(1)}`);
    ++passed;
  } catch (error) {
    console.log(`${name}: ${error.message}`);
    ++failed;
  }
}
if (!names.length) failed = 1;
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
