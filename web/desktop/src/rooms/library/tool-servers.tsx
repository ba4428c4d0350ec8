import { useQuery } from '@tanstack/react-query';
import type { Body, Schemas } from '@everloop/sdk';
import { Pencil, Plug, Plus, Power, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { account } from '../../lib/auth';
import { plural, t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { word } from '../../lib/words';
import { Button, IconButton } from '../../ui/button';
import { FormDialog } from '../../ui/dialog';
import { Area, Check, Field, Input, Select } from '../../ui/field';
import { Badge, Empty, Loaded, type Tone } from '../../ui/page';
import { Row, Rows, Section } from '../../ui/rows';
import { linesOf, pairsOf, textOfPairs } from './lines';
import { SessionChoice, useSessions } from './session-choice';
import { ToolDefinitions } from './tool-definitions';

type Server = Schemas['McpServer'];
const refresh = [['tool-servers']] as const;
const tones: Record<Schemas['SessionMCPServer']['status'], Tone> = {
  connecting: 'accent',
  connected: 'good',
  failed: 'bad',
  disabled: 'neutral',
};
const scopeNames: Record<Server['scope'], string> = { service: t('all sessions'), solution: t('a solution'), session: t('one session') };

export function ToolServers() {
  const servers = useQuery({ queryKey: ['tool-servers', 'all'], queryFn: ({ signal }) => api().listMcpServers({ signal }) });
  const sessions = useSessions();
  const [asking, setAsking] = useState<{ what: 'edit'; server?: Server } | { what: 'delete' | 'review'; server: Server }>();
  const toggle = useAction((server: Server) => api().changeMcpServer(server.id, { enabled: !server.enabled }), { refresh });
  const close = () => setAsking(undefined);
  const mine = (server: Server) => server.owner_id === account().me.id || (server.scope === 'service' && account().me.administrator);
  const where = (server: Server) =>
    server.scope === 'service'
      ? t('for all sessions')
      : t('for {name}', {
          name:
            server.scope === 'session'
              ? sessions.data?.items.find((one) => one.id === server.session_id)?.intent || t('one session')
              : server.solution_id,
        });
  return (
    <>
      <Section
        title={t('Tool servers')}
        note={t('MCP servers whose tools agents can use.')}
        actions={
          <Button look="primary" onClick={() => setAsking({ what: 'edit' })}>
            <Plus size={15} aria-hidden />
            {t('Add a server')}
          </Button>
        }
      >
        <Loaded
          query={servers}
          isEmpty={(data) => data.items.length === 0}
          empty={
            <Empty icon={<Plug size={28} />} title={t('No MCP servers')}>
              {t('Add one for a session or a solution; administrators can add one for all sessions.')}
            </Empty>
          }
        >
          {({ items }) => (
            <Rows label={t('Tool servers')}>
              {items.map((server) => (
                <Row
                  key={server.id}
                  title={server.name}
                  badges={
                    <>
                      <Badge>{server.preset ?? server.transport}</Badge>
                      <Badge tone="accent">{where(server)}</Badge>
                      {!server.enabled && <Badge tone="warn">{t('disabled')}</Badge>}
                      {server.proposed_tools > 0 && (
                        <Badge tone="warn">{plural(server.proposed_tools, '{count} tool changed', '{count} tools changed')}</Badge>
                      )}
                    </>
                  }
                  note={
                    <>
                      {(server.url || server.command) && (
                        <code className="code block break-all">{server.url || [server.command, ...server.args].join(' ')}</code>
                      )}
                      {server.tools.length > 0 ? t('Only {tools}.', { tools: server.tools.join(', ') }) : t('All of its tools.')}
                    </>
                  }
                  actions={
                    mine(server) && (
                      <>
                        {server.proposed_tools > 0 && (
                          <Button small onClick={() => setAsking({ what: 'review', server })}>
                            {t('Review')}
                          </Button>
                        )}
                        <IconButton
                          label={server.enabled ? t('Disable {name}', { name: server.name }) : t('Enable {name}', { name: server.name })}
                          busy={toggle.isPending}
                          onClick={() => toggle.mutate(server)}
                        >
                          <Power size={15} />
                        </IconButton>
                        <IconButton label={t('Edit {name}', { name: server.name })} onClick={() => setAsking({ what: 'edit', server })}>
                          <Pencil size={15} />
                        </IconButton>
                        <IconButton label={t('Delete {name}', { name: server.name })} onClick={() => setAsking({ what: 'delete', server })}>
                          <Trash2 size={15} />
                        </IconButton>
                      </>
                    )
                  }
                />
              ))}
            </Rows>
          )}
        </Loaded>
      </Section>
      <State />
      {asking?.what === 'edit' && <Edit server={asking.server} done={close} />}
      {asking?.what === 'review' && <ToolDefinitions server={asking.server} done={close} />}
      {asking?.what === 'delete' && <Delete server={asking.server} done={close} />}
    </>
  );
}

/** State shows the servers as one session reaches them. */
function State() {
  const [session, setSession] = useState('');
  const state = useQuery({
    queryKey: ['tool-servers', 'session', session], enabled: session !== '', refetchInterval: 5000,
    queryFn: ({ signal }) => api().listSessionMcpServers(session, { signal }),
  });
  return (
    <Section title={t('State in a session')} note={t('Status of its servers, and the tools that they offer.')}>
      <div className="mb-3 max-w-md">
        <SessionChoice value={session} change={setSession} empty={t('Choose a session')} />
      </div>
      {session && (
        <Loaded
          query={state}
          isEmpty={(data) => data.items.length === 0}
          empty={<p className="text-sm text-soft">{t('This session has no MCP server.')}</p>}
        >
          {({ items }) => (
            <Rows label={t('State of tool servers')}>
              {items.map((server) => (
                <Row
                  key={`${server.scope} ${server.name}`}
                  title={server.name}
                  badges={<Badge tone={tones[server.status]}>{word(server.status)}</Badge>}
                  note={server.error}
                >
                  {server.refused_by.map((refusal) => (
                    <p key={refusal.model} className="mt-1 text-sm">
                      {t('The server of the model {model} refused its tools. Requests to it are sent without tools.', { model: refusal.model })}
                    </p>
                  ))}
                  {server.tools.length > 0 && (
                    <details className="mt-1 text-sm">
                      <summary className="cursor-pointer text-soft">{plural(server.tools.length, '{count} tool', '{count} tools')}</summary>
                      <ul className="mt-1 space-y-1">
                        {server.tools.map((tool) => (
                          <li key={tool.name} className="break-words">
                            <code className="code">{tool.name}</code> {tool.read_only && <Badge>{t('only reads')}</Badge>}
                            <span className="block text-soft" dir="auto">
                              {tool.description}
                            </span>
                          </li>
                        ))}
                      </ul>
                    </details>
                  )}
                </Row>
              ))}
            </Rows>
          )}
        </Loaded>
      )}
    </Section>
  );
}

function Edit({ server, done }: { server: Server | undefined; done: () => void }) {
  const solutions = useQuery({ queryKey: ['solutions'], queryFn: ({ signal }) => api().listSolutions({ signal }), staleTime: 60_000 });
  const [name, setName] = useState(server?.name ?? '');
  const [scope, setScope] = useState<Server['scope']>(server?.scope ?? 'session');
  const [session, setSession] = useState(server?.session_id ?? '');
  const [solution, setSolution] = useState(server?.solution_id ?? '');
  const [reached, setReached] = useState<Server['transport'] | 'browser'>(server?.preset ?? server?.transport ?? 'http');
  const [url, setUrl] = useState(server?.url ?? '');
  const [command, setCommand] = useState(server?.command ?? '');
  const [args, setArgs] = useState(server?.args.join('\n') ?? '');
  const [values, setValues] = useState(() => textOfPairs((server?.transport === 'stdio' ? server.env : server?.headers) ?? {}));
  const [tools, setTools] = useState(server?.tools.join('\n') ?? '');
  const [timeout, setTimeout] = useState(String(server?.timeout_s ?? 60));
  const [trust, setTrust] = useState(server?.trust_hints ?? false);
  const settings = () => ({
    name: name.trim(),
    tools: linesOf(tools),
    timeout_s: Number(timeout),
    trust_hints: trust,
    ...(reached === 'http' && { url: url.trim(), headers: pairsOf(values, ':') }),
    ...(reached === 'stdio' && { command: command.trim(), args: linesOf(args), env: pairsOf(values, '=') }),
  });
  const save = useAction(async () => {
    if (server) return api().changeMcpServer(server.id, settings());
    const at = scope === 'session' ? { session_id: session } : scope === 'solution' ? { solution_id: solution } : {};
    return api().createMcpServer({
      ...settings(), scope, ...(reached === 'browser' ? { preset: reached } : { transport: reached }), ...at,
    } satisfies Body<'create-mcp-server'>);
  }, { done: t('The server was saved.'), refresh });
  return (
    <FormDialog
      open
      onOpenChange={done}
      title={server ? t('Edit {name}', { name: server.name }) : t('Add a tool server')}
      confirm={t('Save')}
      submit={() => save.mutateAsync()}
    >
      <Field label={t('Name')} hint={t('a-z, 0-9, _ and -; part of the tool names')}>
        {(ids) => (
          <Input
            {...ids}
            required
            autoFocus
            maxLength={64}
            pattern="[a-z0-9_\-]+"
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        )}
      </Field>
      {!server && (
        <div className="grid gap-3 sm:grid-cols-2">
          <Field label={t('For')}>
            {(ids) => (
              <Select {...ids} value={scope} onChange={(event) => setScope(event.target.value as Server['scope'])}>
                {(['session', 'solution', ...(account().me.administrator ? ['service'] : [])] as Server['scope'][]).map((one) => (
                  <option key={one} value={one}>
                    {scopeNames[one]}
                  </option>
                ))}
              </Select>
            )}
          </Field>
          {scope === 'session' && <SessionChoice value={session} change={setSession} />}
          {scope === 'solution' && (
            <Field label={t('Solution')}>
              {(ids) => (
                <Select {...ids} required value={solution} onChange={(event) => setSolution(event.target.value)}>
                  <option value="">{t('Choose a solution')}</option>
                  {solutions.data?.items.map((one) => (
                    <option key={one.id} value={one.id}>
                      {one.name || one.id}
                    </option>
                  ))}
                </Select>
              )}
            </Field>
          )}
          <Field label={t('Reached by')}>
            {(ids) => (
              <Select {...ids} value={reached} onChange={(event) => setReached(event.target.value as typeof reached)}>
                <option value="http">{t('an address (HTTP)')}</option>
                <option value="stdio">{t('a program (stdio)')}</option>
                <option value="browser">{t('the browser of the session')}</option>
              </Select>
            )}
          </Field>
        </div>
      )}
      {reached === 'http' && (
        <Field label={t('Address')}>
          {(ids) => (
            <Input
              {...ids}
              type="url"
              required
              placeholder="https://tools.example/mcp"
              value={url}
              onChange={(event) => setUrl(event.target.value)}
            />
          )}
        </Field>
      )}
      {reached === 'stdio' && (
        <>
          <Field label={t('Program')}>
            {(ids) => <Input {...ids} required spellCheck={false} value={command} onChange={(event) => setCommand(event.target.value)} />}
          </Field>
          <Field label={t('Arguments')} hint={t('One per line; no secrets here')}>
            {(ids) => (
              <Area {...ids} spellCheck={false} className="code" rows={2} value={args} onChange={(event) => setArgs(event.target.value)} />
            )}
          </Field>
        </>
      )}
      {reached !== 'browser' && (
        <Field
          label={reached === 'http' ? t('Headers') : t('Variables')}
          hint={t('One per line, for example {example}. Masked values do not change.', {
            example: reached === 'http' ? 'Authorization: Bearer …' : 'NAME=value',
          })}
        >
          {(ids) => (
            <Area
              {...ids}
              spellCheck={false}
              autoComplete="off"
              className="code"
              rows={2}
              value={values}
              onChange={(event) => setValues(event.target.value)}
            />
          )}
        </Field>
      )}
      <Field label={t('Only these tools')} hint={t('One a line; empty: all')}>
        {(ids) => (
          <Area
            {...ids}
            spellCheck={false}
            className="code min-h-12!"
            rows={1}
            value={tools}
            onChange={(event) => setTools(event.target.value)}
          />
        )}
      </Field>
      <Field label={t('Time limit of a call (seconds)')}>
        {(ids) => (
          <Input {...ids} type="number" required min={1} max={3600} value={timeout} onChange={(event) => setTimeout(event.target.value)} />
        )}
      </Field>
      <Check
        label={t('Trust its tool annotations')}
        hint={t('Tools marked as read-only are retried after a worker crash.')}
        checked={trust}
        onChange={(event) => setTrust(event.target.checked)}
      />
    </FormDialog>
  );
}

function Delete({ server, done }: { server: Server; done: () => void }) {
  const remove = useAction(() => api().deleteMcpServer(server.id), { done: t('The server was deleted.'), refresh });
  return (
    <FormDialog
      open
      onOpenChange={done}
      danger
      title={t('Delete the tool server?')}
      confirm={t('Delete')}
      submit={() => remove.mutateAsync()}
      description={<>{t('Sessions lose the tools of “{name}”.', { name: server.name })}</>}
    />
  );
}
