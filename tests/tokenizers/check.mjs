// Compares token ids, and the texts decoded from them, with those of Hugging Face's tokenizers, the Rust library that
// models are trained with, and of tokenizers.js. These two differ: one has tables of an older Unicode, the other
// JavaScript's white space and digits. Fails where both differ from us. Ends with what passed and failed.
//
//   node check.mjs DIR texts.json MODULES NAME=TOKENIZER...
//     DIR: NAME.json of each, [[ids, decoded], ...] by gradus; MODULES: a node_modules folder
//     TOKENIZER: a tokenizer.json, or a folder with vocab.json and merges.txt or with vocab.txt
import {existsSync, readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {join, resolve} from 'node:path';

const [dir, textsFile, modules] = process.argv.slice(2, 5).map(path => resolve(path));
const require = createRequire(join(modules, 'x.js'));
const {Tokenizer: JsTokenizer} = require('@huggingface/tokenizers');
const {Tokenizer: RustTokenizer} = require('@anush008/tokenizers');
const text = path => readFileSync(path, 'utf8');
const texts = JSON.parse(text(textsFile));

/** A tokenizer.json as transformers makes it of a folder with its older files. */
function ofFolder(folder) {
  const isPieces = existsSync(join(folder, 'vocab.txt'));
  const vocab = isPieces
    ? Object.fromEntries(text(join(folder, 'vocab.txt')).trimEnd().split('\n').map((token, id) => [token, id]))
    : JSON.parse(text(join(folder, 'vocab.json')));
  const special = isPieces ? ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'] : ['<|endoftext|>'];
  const level = {type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true};
  return {
    version: '1.0', truncation: null, padding: null, post_processor: null,
    added_tokens: special.filter(name => name in vocab).map(content => ({id: vocab[content], content, single_word: false,
      lstrip: false, rstrip: false, normalized: false, special: true})),
    normalizer: isPieces ? {type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null,
      lowercase: true} : null,
    pre_tokenizer: isPieces ? {type: 'BertPreTokenizer'} : level,
    decoder: isPieces ? {type: 'WordPiece', prefix: '##', cleanup: false} : level,
    model: isPieces ? {type: 'WordPiece', unk_token: '[UNK]', continuing_subword_prefix: '##', max_input_chars_per_word: 100, vocab}
      : {type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: '', end_of_word_suffix: '', fuse_unk: false,
        vocab, merges: text(join(folder, 'merges.txt')).split('\n').filter(line => line && !line.startsWith('#version'))},
  };
}

let passed = 0, failed = 0;
for (const argument of process.argv.slice(5)) {
  const [name, path] = argument.split('=');
  const file = path.endsWith('.json') ? JSON.parse(text(path)) : ofFolder(path);
  const ours = JSON.parse(text(join(dir, name + '.json')));
  const js = new JsTokenizer(file, {}), rust = RustTokenizer.fromString(JSON.stringify(file));
  const decodes = file.model.type !== 'WordPiece';  // which words had spaces around them is lost
  const count = {rust: 0, js: 0, both: 0};
  for (const [i, one] of texts.entries()) {
    // Of newer punctuation, the three know different parts.
    if (!decodes && /[\u{10000}-\u{10ffff}]/u.test(one)) continue;
    const ids = ours[i][0].join(), theirs = (await rust.encode(one, null, {addSpecialTokens: false})).getIds();
    const inRust = ids === theirs.join() && (!decodes || await rust.decode(theirs, false) === ours[i][1]);
    const inJs = ids === js.encode(one, {add_special_tokens: false}).ids.join();
    if (!inRust) ++count.rust;
    if (!inJs) ++count.js;
    if (!inRust && !inJs && ++count.both <= 3)
      console.log(`${name}: ${JSON.stringify(one)}: expected ${theirs.join()}, got ${ids}, ${JSON.stringify(ours[i][1])}`);
  }
  console.log(`${name}: ${texts.length} texts; different in tokenizers ${count.rust}, in tokenizers.js ${count.js}, in both ` +
    `${count.both}`);
  if (count.both) ++failed; else ++passed;
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed ? 1 : 0;
