import { execFileSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { chmodSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { type Auth, curlOf } from '../src/rooms/triggers/words';

// run executes a command with a curl that only writes down its arguments.
function run(auth: Auth, secret: string): { headers: Map<string, string>; body: string } {
  const directory = mkdtempSync(join(tmpdir(), 'trigger-'));
  writeFileSync(join(directory, 'curl'), '#!/bin/sh\nprintf "%s\\0" "$@" > "$OUT"\n');
  chmodSync(join(directory, 'curl'), 0o755);
  const out = join(directory, 'arguments');
  execFileSync('bash', ['--norc', '-euc', curlOf('http://x/hooks/1', auth, secret)], { env: { PATH: `${directory}:${process.env.PATH}`, OUT: out } });
  const given = readFileSync(out, 'utf8').split('\0');
  const values = (flag: string) => given.flatMap((one, index) => (given[index - 1] === flag ? [one] : []));
  const headers = values('-H').map((one) => one.split(': ') as [string, string]);
  return { headers: new Map(headers.map(([name, value]) => [name.toLowerCase(), value])), body: values('-d')[0] ?? '' };
}

const hmac = (key: string | Buffer, text: string, as: 'hex' | 'base64') => createHmac('sha256', key).update(text).digest(as);

describe('the command that sends an event', () => {
  test('has the token', () => {
    expect(run('bearer', "it's").headers.get('authorization')).toBe("Bearer it's");
    expect(run('gitlab', 's').headers.get('x-gitlab-token')).toBe('s');
  });
  test('is signed as GitHub signs', () => {
    const { headers, body } = run('github', 'secret of github');
    expect(headers.get('x-hub-signature-256')).toBe(`sha256=${hmac('secret of github', body, 'hex')}`);
  });
  test('is signed as Slack signs', () => {
    const { headers, body } = run('slack', 'secret');
    expect(headers.get('x-slack-signature')).toBe(`v0=${hmac('secret', `v0:${headers.get('x-slack-request-timestamp')}:${body}`, 'hex')}`);
  });
  test('is signed by Standard Webhooks', () => {
    const key = Buffer.from('0123456789abcdef0123456789abcdef');
    const { headers, body } = run('standard', `whsec_${key.toString('base64')}`);
    const text = `${headers.get('webhook-id')}.${headers.get('webhook-timestamp')}.${body}`;
    expect(headers.get('webhook-signature')).toBe(`v1,${hmac(key, text, 'base64')}`);
  });
});
