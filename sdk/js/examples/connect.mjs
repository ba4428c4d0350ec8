// What the examples share: the service that EVERLOOP_URL and EVERLOOP_KEY name.
import { Everloop } from '@everloop/sdk';

export const connect = () =>
  new Everloop({ baseUrl: process.env.EVERLOOP_URL ?? 'http://127.0.0.1:8020', token: process.env.EVERLOOP_KEY });

// argument is the message of an example, unless the command line has another one.
export const argument = (index, text) => process.argv[2 + index] ?? text;
