// The OpenAPI document of a running service, to hold its answers to: the status
// is declared, a refusal has one of the declared codes, and a JSON body has the
// declared fields and no others.
import { Ajv2020 } from 'ajv/dist/2020.js';

export class Contract {
  #ajv = new Ajv2020({ strict: false, validateFormats: false });
  #operations = [];

  static async of(url) {
    return new Contract(await (await fetch(`${url}/api/openapi.json`)).json());
  }

  constructor(document) {
    close(document.components.schemas);
    close(document.paths);
    this.#ajv.addSchema({ $id: 'mem://document', ...document });
    for (const [path, item] of Object.entries(document.paths)) {
      for (const [method, operation] of Object.entries(item)) {
        this.#operations.push({
          operation, method: method.toUpperCase(), literal: path.replace(/\{\w+\}/g, '').length,
          at: `#/paths/${path.replaceAll('/', '~1').replaceAll('{', '%7B').replaceAll('}', '%7D')}/${method}`,
          path: new RegExp(
            `^${path.replace(/[.]/g, '\\$&').replace(/\{(\w+)\}/g, (_, name) => (/^(file|dir)_path$/.test(name) ? '.*' : '[^/]+'))}/?$`,
          ),
        });
      }
    }
    this.#operations.sort((a, b) => b.literal - a.literal); // files/{path}/copy is not the file "…/copy"
  }

  // problem says what is wrong with an answer; undefined: nothing.
  problem(method, path, { status, headers, body }) {
    const bare = path.split('?')[0];
    const found = this.#operations.find((o) => o.method === method && o.path.test(bare));
    if (!found || status === 405 || body?.code === 'route_not_found') return undefined; // no operation answered
    const { operation } = found;
    const response = operation.responses[status];
    if (!response) return `${operation.operationId} answers ${status}, which is not documented: ${JSON.stringify(body)}`;
    if (status >= 400) {
      if (operation['x-error-codes'][status].includes(body.code)) return undefined;
      return `${operation.operationId} answers ${status} with the code ${body.code}, which is not documented`;
    }
    if (!headers.get('content-type')?.startsWith('application/json') || !response.content?.['application/json']) return undefined;
    const ref = `mem://document${found.at}/responses/${status}/content/application~1json/schema`;
    const fits = this.#ajv.getSchema(ref);
    if (fits(body)) return undefined;
    return `${operation.operationId} answers what is not documented: ${this.#ajv.errorsText(fits.errors)}`;
  }
}

// close refuses, in every object whose fields are declared, all others.
function close(value) {
  if (Array.isArray(value)) return value.forEach(close);
  if (!value || typeof value !== 'object') return undefined;
  if (value.properties && value.type === 'object') value.additionalProperties = false;
  return Object.entries(value).forEach(([name, inner]) => name !== 'example' && close(inner));
}
