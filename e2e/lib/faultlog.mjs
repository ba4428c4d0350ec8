// What the processes of a suite logged is shown when one of its tests has failed.
import { writeSync } from 'node:fs';

const warnings = 20_000; // characters of each process
const last = 4_000;

const logs = new Map();

// keepLog has the log of a process shown when a test has failed; read gives all of it.
export function keepLog(name, read) {
  logs.set(name, read);
}

// shown are the last lines of a log, and before them its last warnings and errors.
function shown(text) {
  const grave = text.split('\n').filter((line) => /\b(WARN|ERROR|warn|error|panic|fatal)\b/.test(line)).join('\n');
  return `${grave.slice(-warnings)}\n…\n${text.slice(-last)}`;
}

process.on('exit', (code) => {
  if (!code && !process.exitCode) return;
  for (const [name, read] of logs) {
    writeAll(`--- log of ${name}\n${shown(read())}\n`);
  }
});

function writeAll(text) {
  let rest = Buffer.from(text);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(2, rest));
    } catch (err) {
      if (err.code !== 'EAGAIN') return;
    }
  }
}
