// Asks for a value that follows a JSON Schema.
import { argument, connect } from './connect.mjs';

const client = connect();
const session = await client.createSession();
const { output } = await session.run(argument(0, 'Which colour has the sky? Answer as JSON.'), {
  outputSchema: { type: 'object', required: ['colour'], properties: { colour: { type: 'string' } } },
});
console.log(output.colour);
client.close();
