// Three ways to send a message while a chat runs: the next chat, into the running one, or instead of it.
import { argument, connect } from './connect.mjs';

const client = connect();
const session = await client.createSession();
const first = await session.send(argument(0, 'Count to a hundred, slowly.'));
const next = await session.send(argument(1, 'And then to ten.'), { delivery: 'enqueue' });
console.log(`${next.delivery_applied} at ${next.position}`);
const steered = await session.send(argument(2, 'Skip the odd numbers.'), { delivery: 'steer' });
console.log(`${steered.delivery_applied} into ${steered.chat_id === first.chat_id ? 'the first chat' : 'a chat of its own'}`);
const urgent = await session.send(argument(3, 'Stop counting and say hello.'), { delivery: 'interrupt' });
console.log(`first: ${(await session.ended(first.chat_id)).finish_reason}`);
console.log(`urgent: ${(await session.ended(urgent.chat_id)).finish_reason}`);
console.log(`next: ${(await session.ended(next.chat_id)).finish_reason}`);
client.close();
