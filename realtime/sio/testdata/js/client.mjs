// Runs one scenario with the official client and prints its result as one line of JSON.
// usage: node client.mjs <scenario> <url> <transport setting>
import { io } from "socket.io-client";
import { strict as assert } from "node:assert";

const [scenario, url, setting] = process.argv.slice(2);
const settings = {
  polling: ["polling"],
  websocket: ["websocket"],
  upgrade: ["polling", "websocket"],
};

function open(auth = { token: "good" }, more = {}) {
  return io(url, { transports: settings[setting], auth, reconnection: false, forceNew: true, ...more });
}

const once = (socket, event) => new Promise((resolve) => socket.once(event, (...args) => resolve(args)));

async function connected(auth, more) {
  const socket = open(auth, more);
  await new Promise((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("connect_error", reject);
  });
  if (setting === "upgrade" && socket.io.engine.transport.name !== "websocket") {
    await new Promise((resolve) => socket.io.engine.once("upgrade", resolve));
  }
  return socket;
}

const ask = (socket, event, ...args) => socket.timeout(60000).emitWithAck(event, ...args);

const scenarios = {
  async echo() {
    const socket = await connected();
    const answer = await ask(socket, "echo", { text: "grüße 🎈", deep: [1, { two: null }] });
    assert.deepEqual(answer, { ok: true, payload: { text: "grüße 🎈", deep: [1, { two: null }] } });
    const none = await ask(socket, "echo");
    socket.disconnect();
    return { transport: socket.io.engine.transport.name, none };
  },

  async refused() {
    const socket = open({ token: "wrong" });
    const [error] = await once(socket, "connect_error");
    // The same connection may try another token.
    socket.auth = { token: "good" };
    socket.connect();
    await once(socket, "connect");
    const answer = await ask(socket, "echo", { second: true });
    socket.disconnect();
    return { message: error.message, data: error.data, answer };
  },

  async refusal() {
    const socket = open({ token: "later" });
    const [error] = await once(socket, "connect_error");
    socket.disconnect();
    return { message: error.message, data: error.data };
  },

  async namespace() {
    const socket = io(url + "/admin", { transports: settings[setting], auth: { token: "good" }, forceNew: true });
    const [error] = await once(socket, "connect_error");
    socket.disconnect();
    return { message: error.message };
  },

  async burst() {
    const socket = await connected();
    const ticks = [];
    socket.on("tick", ({ n }) => ticks.push(n));
    const done = new Promise((resolve) => socket.on("tick", () => ticks.length === 2000 && resolve()));
    const answer = await ask(socket, "burst", { count: 2000 });
    await done;
    for (let n = 0; n < 2000; n++) socket.emit("log", { n });
    const { logged } = await ask(socket, "logged");
    socket.disconnect();
    const inOrder = (list) => list.length === 2000 && list.every((n, i) => n === i);
    return { queued: answer.queued, out: inOrder(ticks), in: inOrder(logged) };
  },

  async large() {
    const socket = await connected();
    const sizes = [];
    for (const size of [70 << 10, 900 << 10, 9 << 20]) {
      const text = "x".repeat(size);
      const answer = await ask(socket, "echo", { text });
      assert.equal(answer.payload.text, text);
      const blob = once(socket, "blob");
      await ask(socket, "big", { bytes: size });
      const [{ text: back }] = await blob;
      assert.equal(
        back,
        Array.from({ length: 26 }, (_, i) => String.fromCharCode(97 + i))
          .join('')
          .repeat(Math.ceil(size / 26))
          .slice(0, size),
      );
      sizes.push(back.length);
    }
    const over = await ask(socket, "echo", { text: "x".repeat(11 << 20) });
    const after = await ask(socket, "echo", { still: "here" });
    socket.disconnect();
    return { sizes, over, after };
  },

  async faults() {
    const socket = await connected();
    const codes = [];
    for (const args of [["text"], [[1]], [7], [{ a: 1 }, { b: 2 }]]) {
      codes.push((await ask(socket, "echo", ...args)).error.code);
    }
    codes.push((await ask(socket, "echo", { part: Buffer.from("binary") })).error.code);
    codes.push((await ask(socket, "nonsense", {})).error.code);
    codes.push((await ask(socket, "panic", {})).error.code);
    codes.push((await ask(socket, "unjson", {})).error.code);
    const reported = once(socket, "session:error");
    socket.emit("echo", "no object and no callback");
    const [error] = await reported;
    socket.disconnect();
    return { codes, reported: error.error.code };
  },

  async kicked() {
    const socket = await connected();
    const gone = once(socket, "disconnect");
    socket.emit("kick");
    const [reason] = await gone;
    return { reason };
  },

  // Says that it is there, then reports why it was disconnected.
  async wait() {
    const socket = await connected();
    const gone = once(socket, "disconnect");
    console.log(JSON.stringify({ ready: socket.id }));
    const [reason] = await gone;
    return { reason };
  },

  async upgradeUnderLoad() {
    const socket = open();
    const ticks = [];
    socket.on("tick", ({ n }) => ticks.push(n));
    await once(socket, "connect");
    await ask(socket, "paced");
    if (socket.io.engine.transport.name !== "websocket") {
      await new Promise((resolve) => socket.io.engine.once("upgrade", resolve));
    }
    while (ticks.length < 200) await once(socket, "tick");
    socket.disconnect();
    return { transport: socket.io.engine.transport.name, inOrder: ticks.every((n, i) => n === i) };
  },
};

const watchdog = setTimeout(() => {
  console.error(`${scenario} took too long`);
  process.exit(2);
}, 120000);

try {
  console.log(JSON.stringify(await scenarios[scenario]()));
  clearTimeout(watchdog);
  process.exit(0);
} catch (error) {
  console.error(error);
  process.exit(1);
}
