// What the desktop costs in Debian's Chromium: the scripts that it loads, its first paint,
// a session of 10,000 turns, and a fast stream. Prints one JSON object.
import http from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { launch, program } from '../../e2e/lib/browser.mjs';

const { DESKTOP, AGENT, KEY, SESSION, ROUNDS, TOKENS } = process.env;
const rounds = Number(ROUNDS);
const tokens = Number(TOKENS);
const shownAnswers = 4; // from then on, earlier ones are out of view

const browser = await launch(program());
const auth = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' };

// open gives a page of a browser without a cache, and the bytes of scripts that it has loaded.
async function open(path, { signedIn = true, origin = DESKTOP, context } = {}) {
  const own = context ?? await browser.newContext({ viewport: { width: 1400, height: 900 } });
  const page = await own.newPage();
  const cdp = await own.newCDPSession(page);
  const scripts = new Map(); // the bytes of the header, by request
  const loaded = { bytes: 0 };
  await cdp.send('Network.enable');
  cdp.on('Network.responseReceived', ({ requestId, type, response }) => {
    if (type === 'Script') scripts.set(requestId, response.encodedDataLength);
  });
  cdp.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
    if (scripts.has(requestId)) loaded.bytes += encodedDataLength - scripts.get(requestId);
  });
  if (signedIn) await page.addInitScript((key) => sessionStorage.setItem('everloop.key', key), KEY);
  await page.addInitScript(() => {
    globalThis.longTasks = [];
    new PerformanceObserver((list) => globalThis.longTasks.push(...list.getEntries().map((e) => e.duration)))
      .observe({ type: 'longtask', buffered: true });
  });
  await page.goto(`${origin}${path}`);
  return { page, context: own, cdp, loaded };
}

const longTasks = (page) => page.evaluate(() => globalThis.longTasks.splice(0));
const longest = (list) => Math.max(0, ...list);

const firstPaint = (page) => page.evaluate(async () => {
  for (;;) {
    const [paint] = performance.getEntriesByName('first-contentful-paint');
    if (paint) return paint.startTime;
    await new Promise((resolve) => requestAnimationFrame(resolve));
  }
});

// scripts are the bytes of the sign-in, and of a chat that is opened at once.
async function scripts() {
  const signIn = await open('/', { signedIn: false });
  await signIn.page.getByRole('button', { name: 'Use an API key' }).waitFor();
  const chat = await open(`/s/${SESSION}`);
  await chat.page.getByRole('textbox').first().waitFor();
  await chat.page.waitForLoadState('networkidle').catch(() => {});
  const found = { signIn: signIn.loaded.bytes, chat: chat.loaded.bytes };
  await signIn.context.close();
  await chat.context.close();
  return found;
}

// paint is the first contentful paint with a cold cache, beside a page of one heading.
async function paint() {
  const plain = http.createServer((_, response) => response.setHeader('content-type', 'text/html').end('<h1>Hello</h1>'));
  await new Promise((resolve) => plain.listen(0, '127.0.0.1', resolve));
  const found = { desktop: [], bare: [] };
  for (let i = 0; i < rounds; i++) {
    for (const [name, origin] of [['desktop', DESKTOP], ['bare', `http://127.0.0.1:${plain.address().port}`]]) {
      const { page, context } = await open('/', { signedIn: false, origin });
      found[name].push(await firstPaint(page));
      await context.close();
    }
  }
  plain.close();
  return found;
}

// opening is the time until the newest turn of a long session is shown, from a browser that
// has the desktop in its cache, beside the read of its newest turns by a page alone; and the
// longest task while it is scrolled to older turns.
async function opening() {
  const found = { shown: [], bare: [], scroll: 0, scrolled: 0 };
  const { context, page: first } = await open('/');
  await first.getByRole('textbox').first().waitFor();
  for (let i = 0; i < rounds; i++) {
    const { page } = await open(`/s/${SESSION}`, { context });
    await page.waitForFunction(() => document.querySelectorAll('main article').length > 0, undefined, { polling: 'raf' });
    found.shown.push(await page.evaluate(() => performance.now()));
    found.bare.push(await page.evaluate(async ([session, key]) => {
      const began = performance.now();
      const answer = await fetch(`/api/sessions/${session}/messages?newest=true&limit=100`, { headers: { authorization: `Bearer ${key}` } });
      await answer.json();
      return performance.now() - began;
    }, [SESSION, KEY]));
    if (i === rounds - 1) {
      await sleep(1000);
      const newest = await page.evaluate(() => document.querySelector('main article').textContent);
      await watched(page);
      await page.mouse.move(800, 400);
      for (let turn = 0; turn < 200; turn++) {
        await page.mouse.wheel(0, -900);
        await sleep(16);
      }
      if (await page.evaluate((top) => document.querySelector('main article').textContent === top, newest)) {
        throw new Error('nothing was scrolled');
      }
      const tasks = await longTasks(page);
      found.scroll = longest(tasks);
      found.scrolled = tasks.length;
    }
    await page.close();
  }
  await context.close();
  return found;
}

// watched holds that long tasks are seen at all, and forgets those so far.
async function watched(page) {
  await page.evaluate(() => new Promise((resolve) => {
    setTimeout(() => {
      const until = performance.now() + 120;
      while (performance.now() < until);
      resolve();
    });
  }));
  await page.waitForFunction(() => globalThis.longTasks.some((duration) => duration >= 120), undefined, { timeout: 10_000 });
  await longTasks(page);
}

// conversation opens a new session, with what asks for an answer of so many tokens and waits until it is shown.
async function conversation() {
  const call = async (method, path, body) => {
    const answer = await fetch(`${AGENT}${path}`, { method, headers: auth, body: body && JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  };
  const { session_id: session } = await call('POST', '/api/sessions', {});
  const opened = await open(`/s/${session}`);
  await opened.page.getByRole('textbox').first().waitFor();
  const speak = async (name, pace) => {
    const words = Array.from({ length: tokens }, (_, i) => (i % 12 === 11 ? `${name}${i}.\n\n` : `${name}${i} `)).join('');
    await call('POST', `/api/sessions/${session}/chat`, {
      message: `Speak.[[script]]${JSON.stringify({ steps: [{ text: words, ...pace }] })}`,
    });
    const last = `${name}${tokens - 1}`;
    await opened.page.waitForFunction((word) => document.querySelector('main').textContent.includes(word), last, {
      timeout: 300_000, polling: 50,
    });
    return words;
  };
  const heap = async () => {
    await opened.cdp.send('HeapProfiler.collectGarbage');
    return (await opened.cdp.send('Runtime.getHeapUsage')).usedSize;
  };
  return { ...opened, speak, heap };
}

// stream follows an answer, and compares what is shown with what was said.
async function stream(pace) {
  const { page, context, speak, heap } = await conversation();
  const before = await heap();
  await watched(page);
  const began = performance.now();
  const words = await speak('w', pace);
  const seconds = (performance.now() - began) / 1000;
  const tasks = await longTasks(page);
  const shown = await page.evaluate(() => document.querySelector('main').textContent.replace(/\s+/g, ' '));
  const missing = words.split(/\s+/).filter((word) => word && !shown.includes(word)).length;
  const grown = (await heap()) - before;
  await context.close();
  return { tokensPerSecond: tokens / seconds, longest: longest(tasks), long: tasks.length, missing, heapBytesPerToken: grown / tokens };
}

// hour follows as many tokens as an hour of answers has at 50 tokens a second, and takes what a page
// keeps of them once it holds as many turns as it shows.
async function hour() {
  const { context, cdp, speak, heap } = await conversation();
  const state = async () => ({ heap: await heap(), nodes: (await cdp.send('Memory.getDOMCounters')).nodes });
  const answers = Math.ceil((3600 * 50) / tokens) + shownAnswers;
  let early;
  for (let i = 1; i <= answers; i++) {
    await speak(`a${i}w`, {});
    if (i === shownAnswers) early = await state();
  }
  const late = await state();
  await context.close();
  return { heapBytesPerToken: (late.heap - early.heap) / (tokens * (answers - shownAnswers)), nodes: late.nodes - early.nodes };
}

const found = {};
for (const [name, measure] of Object.entries({
  scripts, paint, opening,
  paced: () => stream({ chunk: 24, delay_ms: 1 }), // some 2,000 words a second
  fast: () => stream({}),
  hour,
})) found[name] = await measure();
await browser.close();
console.log(JSON.stringify(found));
