// The schema of the service's events, to hold every event to that a client gets.
import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';

const document = JSON.parse(readFileSync(new URL('../../docs/events.json', import.meta.url), 'utf8'));
const ajv = new Ajv2020({ strict: false, validateFormats: false, discriminator: true }).addSchema(document, 'events.json');

// The names of the events.
export const serverEvents = document.oneOf.map((event) => event.title);

// problem says why an event does not fit its schema; undefined: it fits.
export function problem({ name, data }) {
  if (!serverEvents.includes(name)) return `${name} is not declared`;
  const fits = ajv.getSchema(`events.json#/$defs/${name}`);
  if (fits(data)) return undefined;
  return `does not fit docs/events.json: ${ajv.errorsText(fits.errors)}: ${JSON.stringify(data)}`;
}
