// Looks into the processes of a PostgreSQL server of the tests.
import { readFileSync } from 'node:fs';

// backendOf gives the process id of one backend that serves the service.
export function backendOf(postgres) {
  const pids = postgres.tree().filter((pid) => {
    try {
      return /^postgres: \S+ everloop_app everloop /.test(readFileSync(`/proc/${pid}/cmdline`, 'utf8'));
    } catch {
      return false; // it has ended meanwhile
    }
  });
  if (pids.length === 0) throw new Error('PostgreSQL has no connections');
  return pids[0];
}
