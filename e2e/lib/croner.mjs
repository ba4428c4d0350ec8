// When cron expressions are due, by npm croner and the time zones of Node.js. croner
// knows no rule of Everloop's for clock changes, so it counts in UTC, as clocks on a
// wall do that are never changed; what a zone makes of a reading is read off a table
// of all minutes around the change. Reads {expression, zone, from, to} by line and
// writes the due times between the two, in seconds, by line.
import { createInterface } from 'node:readline';
import { Cron } from 'croner';

const minute = 60_000;
const most = 20;

// readings gives, for the minutes from one time to another, what the clocks show
// (as if it were UTC) and when they show it first, in the order of the readings.
const tables = new Map();
function readings(zone, from, to) {
  const key = `${zone} ${from} ${to}`;
  if (tables.has(key)) return tables.get(key);
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone: zone, hourCycle: 'h23', year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric',
  });
  const first = new Map();
  for (let at = from; at <= to; at += minute) {
    const p = Object.fromEntries(format.formatToParts(at).map(({ type, value }) => [type, Number(value)]));
    const shown = Date.UTC(p.year, p.month - 1, p.day, p.hour, p.minute);
    if (!first.has(shown)) first.set(shown, at);
  }
  const table = { first, begin: Math.min(...first.keys()), end: Math.max(...first.keys()) };
  tables.set(key, table);
  return table;
}

function due({ expression, zone, from, to }) {
  const { first, begin, end } = readings(zone, from * 1000, to * 1000);
  const cron = new Cron(expression, { timezone: 'UTC', paused: true });
  const times = new Set();
  for (let shown = cron.nextRun(new Date(begin)); shown && shown.getTime() <= end && times.size < most; shown = cron.nextRun(shown)) {
    let reading = shown.getTime();
    while (!first.has(reading) && reading < end) reading += minute; // left out: the next that is there
    times.add(first.get(reading) / 1000);
  }
  return [...times];
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(due(JSON.parse(line)))}\n`);
}
