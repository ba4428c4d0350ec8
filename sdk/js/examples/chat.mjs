// Sends a message, prints the answer as it streams, and answers questions with their first option.
import { argument, connect } from './connect.mjs';

const client = connect();
const session = await client.createSession({ intent: 'SDK example' });
session.on(({ name, data }) => {
  if (name !== 'turn:patch') return;
  if (data.patch_type === 'add_content' && data.block_type === 'text') process.stdout.write(data.text_delta);
  if (data.patch_type === 'add_tool_call') console.log(`\n[${data.tool_call.display_name} ${data.tool_call.arguments}]`);
  if (data.patch_type === 'tool_result') console.log(`[${data.status}: ${data.result}]`);
});

const { end } = await session.run(argument(0, 'Write a file and list the directory.'), {
  onQuestion: (question) => question.questions.map(({ question: text, options }) => {
    console.log(`\n[${text} -> ${options?.[0]?.label ?? 'yes'}]`);
    return options?.length ? 0 : 'yes';
  }),
});
console.log(`\n${end.finish_reason}: ${end.usage.input_tokens} + ${end.usage.output_tokens} tokens in ${end.steps} steps`);
client.close();
