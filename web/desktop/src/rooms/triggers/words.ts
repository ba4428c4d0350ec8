import type { Schemas } from '@everloop/sdk';
import { t } from '../../lib/i18n';
import type { Tone } from '../../ui/page';

export type Trigger = Schemas['Trigger'];
export type Delivery = Schemas['Delivery'];
export type Auth = NonNullable<Trigger['auth']>;
export type Outcome = NonNullable<Delivery['outcome']>;

/** senders are the ways in which a request proves its sender. */
export const senders: Record<Auth, string> = {
  bearer: t('Any program, with a token'),
  standard: t('Standard Webhooks, with a signature'),
  github: 'GitHub',
  gitlab: 'GitLab',
  slack: 'Slack',
};

/** outcomes are what becomes of a delivery. */
export const outcomes: Record<Outcome, { label: string; tone: Tone }> = {
  fired: { label: t('started'), tone: 'good' },
  filtered: { label: t('filtered out'), tone: 'neutral' },
  duplicate: { label: t('duplicate'), tone: 'neutral' },
  paused: { label: t('trigger paused'), tone: 'warn' },
  rate_limited: { label: t('rate limited'), tone: 'warn' },
  invalid_signature: { label: t('invalid signature'), tone: 'bad' },
  failed: { label: t('failed'), tone: 'bad' },
};

/** addressOf returns the address that a sender is given. */
export const addressOf = (path: string): string => `${location.origin}${path}`;

/** quoted writes a text as one word of a shell. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** curlOf returns a command that sends an event; the secret is a variable of the shell where it is not known. */
export function curlOf(address: string, auth: Auth, secret?: string): string {
  const body = `'{"type": "example", "text": "Hello"}'`;
  const head = secret === undefined ? "SECRET='…'" : `SECRET=${quoted(secret)}`;
  const send = `curl -X POST ${quoted(address)} -H 'Content-Type: application/json'`;
  const sign = (text: string, key = '"$SECRET"') => `$(printf '%s' "${text}" | openssl dgst -sha256 -hmac ${key} | sed 's/.* //')`;
  switch (auth) {
    case 'bearer': return `${head}\n${send} \\\n  -H "Authorization: Bearer $SECRET" -d ${body}`;
    case 'gitlab': return `${head}\n${send} \\\n  -H "X-Gitlab-Token: $SECRET" -H 'X-Gitlab-Event: Push Hook' -d ${body}`;
    case 'github':
      return `${head}\nBODY=${body}\n${send} \\\n  -H 'X-GitHub-Event: push' -H "X-Hub-Signature-256: sha256=${sign('$BODY')}" -d "$BODY"`;
    case 'slack':
      return `${head}\nBODY=${body}\nTIME=$(date +%s)\n${send} \\\n  -H "X-Slack-Request-Timestamp: $TIME" -H "X-Slack-Signature: `
        + `v0=${sign('v0:$TIME:$BODY')}" -d "$BODY"`;
    case 'standard':
      return `${head}\nBODY=${body}\nID=msg_$(date +%s%N)\nTIME=$(date +%s)\nKEY=$(printf '%s' "\${SECRET#whsec_}" | base64 -d | od -An -v -tx1 | `
        + `tr -d ' \\n')\nSIGN=$(printf '%s' "$ID.$TIME.$BODY" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$KEY" -binary | base64)\n`
        + `${send} \\\n  -H "webhook-id: $ID" -H "webhook-timestamp: $TIME" -H "webhook-signature: v1,$SIGN" -d "$BODY"`;
  }
}

/** targetText says what a trigger starts. */
export function targetText(target: Trigger['target']): string {
  switch (target.kind) {
    case 'session': return t('sends a message to a session');
    case 'prompt': return t('starts a new session');
    case 'agent': return t('starts a session of an agent');
    case 'dag': return t('runs a DAG');
    case 'issue': return t('creates an issue on a board');
  }
}

/** sourceText says what starts a trigger. */
export function sourceText(trigger: Trigger): string {
  if (trigger.kind === 'webhook') return trigger.auth ? senders[trigger.auth] : '';
  const kinds: Record<string, string> = { task: t('a run of a schedule ends'), dag: t('a run of a DAG ends'), issue: t('a run of an issue ends') };
  return kinds[trigger.source?.kind ?? ''] ?? t('a run ends');
}
