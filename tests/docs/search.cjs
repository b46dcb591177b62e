// Asks the search of a built site: node search.cjs WORKER INDEX QUERY... prints the pages found for each query, as JSON.
// The worker is the very file that a browser runs; messages of type 0 set it up, those of type 2 are queries.
const { readFileSync } = require("fs");

const [worker, index, ...queries] = process.argv.slice(2);
const handlers = [];
let reply;
globalThis.self = globalThis;
globalThis.addEventListener = (_name, handler) => handlers.push(handler);
globalThis.postMessage = (message) => {
  reply = message;
};
(0, eval)(readFileSync(worker, "utf8"));

async function send(message) {
  await handlers[0]({ data: message });
  return reply;
}

async function main() {
  await send({ type: 0, data: { ...JSON.parse(readFileSync(index, "utf8")), options: { suggest: true } } });
  const found = {};
  for (const query of queries) {
    const { data } = await send({ type: 2, data: query });
    found[query] = data.items.map((items) => items[0].location);
  }
  process.stdout.write(JSON.stringify(found));
}

main();
