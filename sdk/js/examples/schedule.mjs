// Makes a scheduled task, runs it now and follows its session.
import { argument, connect } from './connect.mjs';

const client = connect();
const task = await client.api.createScheduledTask({
  title: 'Report',
  prompt: argument(0, 'Write the report.'),
  cron: '0 9 * * MON-FRI',
  timezone: 'UTC',
});
console.log(`${task.cron_text}, next at ${task.next_run_at}`);
await client.api.runScheduledTask(task.id);
let run;
do {
  await new Promise((resolve) => setTimeout(resolve, 200));
  [run] = await client.api.listScheduledRuns(task.id);
} while (run.status === 'running');
console.log(`${run.status}: ${run.outcome}`);
await client.api.deleteScheduledTask(task.id);
client.close();
