// The REST interface with one API key. Each answer of a service that Fixture has
// started is checked against the service's own OpenAPI document, and each event
// against the schema of the events.
import { problem } from './events.mjs';

export class Rest {
  static contracts = new Map(); // by address of the service

  constructor(url, key) {
    this.url = url;
    this.key = key;
  }

  // call gives {status, headers, body}; the body is parsed when it is JSON.
  async call(method, path, body, headers = {}) {
    const answer = await fetch(this.url + path, {
      method,
      headers: {
        ...(this.key ? { authorization: `Bearer ${this.key}` } : {}),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await answer.text();
    const json = /json/.test(answer.headers.get('content-type') ?? '');
    const got = { status: answer.status, headers: answer.headers, body: json && text ? JSON.parse(text) : text };
    const problem = Rest.contracts.get(this.url)?.problem(method, path, got);
    if (problem) throw new Error(problem);
    return got;
  }

  // want is call for a request that must succeed.
  async want(method, path, body) {
    const answer = await this.call(method, path, body);
    if (answer.status >= 300) {
      throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    }
    return answer.body;
  }

  get(path) { return this.want('GET', path); }
  post(path, body = {}) { return this.want('POST', path, body); }
  put(path, body = {}) { return this.want('PUT', path, body); }
  patch(path, body = {}) { return this.want('PATCH', path, body); }
  delete(path) { return this.want('DELETE', path); }

  messages(session) { return this.get(`/api/sessions/${session}/messages`); }
  detail(session) { return this.get(`/api/sessions/${session}`); }
  file(session, path) { return this.get(`/api/sessions/${session}/files/${path}`); }

  // join makes a user, whose requests are member's, a member of a workspace that this user administers.
  async join(board, member, user_id, role) {
    const { id } = await this.post(`${board}/members`, { user_id, role });
    return member.post(`/api/invitations/${id}/accept`);
  }

  // stream reads server-sent events until stop(event) is true or the server ends.
  async stream(method, path, body, stop, timeout = 180_000) {
    const abort = new AbortController();
    const late = setTimeout(() => abort.abort(new Error(`${path} did not end within ${timeout} ms`)), timeout);
    const events = [];
    try {
      const answer = await fetch(this.url + path, {
        method, signal: abort.signal,
        headers: {
          accept: 'text/event-stream', authorization: `Bearer ${this.key}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        body: body === undefined ? undefined : JSON.stringify(body),
      });
      if (answer.status !== 200) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
      let rest = '';
      const decoder = new TextDecoder();
      for await (const chunk of answer.body) {
        rest += decoder.decode(chunk, { stream: true });
        let end;
        while ((end = rest.indexOf('\n\n')) >= 0) {
          const event = parseEvent(rest.slice(0, end));
          rest = rest.slice(end + 2);
          if (!event) continue;
          const wrong = problem(event);
          if (wrong) throw new Error(`${path}: ${event.name} ${wrong}`);
          events.push(event);
          if (stop?.(event)) return events;
        }
      }
      return events;
    } finally {
      clearTimeout(late);
      abort.abort();
    }
  }
}

function parseEvent(text) {
  const event = { id: undefined, name: 'message', data: '' };
  for (const line of text.split('\n')) {
    const colon = line.indexOf(':');
    if (colon <= 0) continue; // a comment
    const field = line.slice(0, colon);
    const value = line.slice(colon + 1).replace(/^ /, '');
    if (field === 'id') event.id = Number(value);
    if (field === 'event') event.name = value;
    if (field === 'data') event.data += value;
  }
  if (event.data === '') return undefined;
  return { ...event, data: JSON.parse(event.data) };
}
