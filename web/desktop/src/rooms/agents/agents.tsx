import type { Schemas } from '@everloop/sdk';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { Bot, Cpu, Ellipsis, MessageSquarePlus, Plus, Server } from 'lucide-react';
import { useState } from 'react';
import { account } from '../../lib/auth';
import { relative } from '../../lib/format';
import { plural, t } from '../../lib/i18n';
import { api, useAction, usePages } from '../../lib/query';
import { Button, IconButton } from '../../ui/button';
import { FormDialog } from '../../ui/dialog';
import { Check } from '../../ui/field';
import { Menu } from '../../ui/menu';
import { Badge, Empty, Loaded, More } from '../../ui/page';
import { State, Tabs } from '../unattended/pieces';
import { AgentForm, InstanceForm } from './forms';

type Summary = Schemas['ProdAgentSummary'];
type Instance = Schemas['AgentInstance'];

/** Agents are templates, the instances that work is assigned to, and the runtimes that carry work out. */
export default function Agents() {
  const [tab, setTab] = useState('agents');
  const [making, setMaking] = useState<'agent' | 'instance'>();
  return (
    <div className="flex h-full min-h-0 flex-col">
      <header className="room-header flex min-h-12 flex-wrap items-center gap-2 border-b py-1.5 pr-3 pl-4">
        <h1 className="min-w-0 flex-1 truncate text-base font-semibold">{t('Agents')}</h1>
        {tab === 'agents' && (
          <Button look="primary" onClick={() => setMaking('agent')}>
            <Plus size={15} aria-hidden />
            {t('New agent')}
          </Button>
        )}
        {tab === 'instances' && (
          <Button look="primary" onClick={() => setMaking('instance')}>
            <Plus size={15} aria-hidden />
            {t('New instance')}
          </Button>
        )}
      </header>
      <div className="min-h-0 flex-1">
        <Tabs
          label={t('Agents')}
          value={tab}
          change={setTab}
          parts={[
            { id: 'agents', label: t('Agents'), content: <Templates make={() => setMaking('agent')} /> },
            { id: 'instances', label: t('Instances'), content: <Instances make={() => setMaking('instance')} /> },
            { id: 'runtimes', label: t('Runtimes'), content: <Runtimes /> },
          ]}
        />
      </div>
      {making === 'agent' && <AgentForm close={() => setMaking(undefined)} />}
      {making === 'instance' && <InstanceForm close={() => setMaking(undefined)} />}
    </div>
  );
}

const list = 'mx-auto max-w-4xl space-y-2 p-4';
const row = 'flex items-center gap-3 rounded-lg border bg-raised px-3 py-2.5';

function Templates({ make }: { make: () => void }) {
  const pages = usePages<Summary>(['agents', 'templates'], (query, signal) => api().listProdAgents({ query, signal }));
  return (
    <div className={list}>
      <Loaded
        query={pages}
        isEmpty={() => pages.items?.length === 0}
        empty={
          <Empty
            icon={<Bot size={28} />}
            title={t('There is no agent yet')}
            action={
              <Button look="primary" onClick={make}>
                {t('New agent')}
              </Button>
            }
          >
            {t(
              'An agent is a template: a solution, a role, instructions and skills. Start sessions with it, or create ' +
                'instances and assign issues to them.',
            )}
          </Empty>
        }
      >
        {() => (
          <ul className="space-y-2">
            {pages.items?.map((one) => (
              <Template key={one.record_id} agent={one} />
            ))}
          </ul>
        )}
      </Loaded>
      <More pages={pages} />
    </div>
  );
}

function Template({ agent }: { agent: Summary }) {
  const navigate = useNavigate();
  const [asking, setAsking] = useState<'edit' | 'delete' | 'start' | 'instantiate'>();
  const own = agent.owner_id === account().me.id;
  const start = useAction(async (consent: { init_script_digest?: string }) => {
    const { session_id } = await api().startProdAgentSession(agent.record_id, consent);
    await navigate({ to: '/s/$sessionId', params: { sessionId: session_id } });
  }, { refresh: [['sessions']] });
  const instantiate = useAction((consent: { init_script_digest?: string }) => api().instantiateProdAgent(agent.record_id, consent), {
    done: t('The instance was made.'),
    refresh: [['agents']],
  });
  const begin = own ? () => start.mutate({}) : () => setAsking('start');
  const make = own ? () => instantiate.mutate({}) : () => setAsking('instantiate');
  const remove = useAction(() => api().deleteProdAgent(agent.record_id), { done: t('The agent was deleted.'), refresh: [['agents']] });
  const details = useQuery({
    queryKey: ['agents', 'template', agent.record_id],
    enabled: asking !== undefined && asking !== 'delete',
    queryFn: ({ signal }) => api().getProdAgent(agent.record_id, { signal }),
    staleTime: 0,
  });
  return (
    <li className={row}>
      <Bot size={20} className="shrink-0 text-soft" aria-hidden />
      <div className="min-w-0 flex-1">
        <p className="flex flex-wrap items-center gap-x-2">
          <span className="min-w-0 truncate font-medium" dir="auto">
            {agent.name}
          </span>
          {agent.status === 'unavailable' && <Badge tone="bad">{t('solution is missing')}</Badge>}
          {agent.visibility !== 'workspace' && <Badge>{t('private')}</Badge>}
        </p>
        <p className="truncate text-sm text-soft">
          {agent.solution_id} / {agent.biz_role_id} · {agent.agent_id}
        </p>
      </div>
      <Button small busy={start.isPending} disabled={agent.status !== 'active'} onClick={begin}>
        <MessageSquarePlus size={14} aria-hidden />
        <span className="max-sm:sr-only">{t('Begin a session')}</span>
      </Button>
      <Menu
        trigger={
          <IconButton small label={t('Actions of {name}', { name: agent.name })}>
            <Ellipsis size={15} />
          </IconButton>
        }
        items={[
          { label: t('Make an instance'), run: make, disabled: agent.status !== 'active' },
          { label: t('Edit'), run: () => setAsking('edit'), disabled: !own },
          null,
          { label: t('Delete'), danger: true, run: () => setAsking('delete'), disabled: !own },
        ]}
      />
      {asking === 'edit' && details.data && <AgentForm agent={details.data.agent} close={() => setAsking(undefined)} />}
      {(asking === 'start' || asking === 'instantiate') && details.data && (
        <FormDialog
          open
          onOpenChange={() => setAsking(undefined)}
          title={agent.name}
          confirm={asking === 'start' ? t('Begin a session') : t('Make an instance')}
          submit={() => (asking === 'start' ? start : instantiate).mutateAsync({ init_script_digest: details.data.init_script_digest })}
          description={
            details.data.agent.init_script
              ? t('This agent belongs to another user. Its init script runs with your environment:')
              : t('This agent belongs to another user. It has no init script.')
          }
        >
          {details.data.agent.init_script && (
            <pre className="max-h-64 overflow-auto rounded-lg border p-3 font-mono text-xs" dir="ltr">
              {details.data.agent.init_script}
            </pre>
          )}
        </FormDialog>
      )}
      <FormDialog
        open={asking === 'delete'}
        onOpenChange={() => setAsking(undefined)}
        danger
        title={t('Delete {name}?', { name: agent.name })}
        confirm={t('Delete')}
        submit={() => remove.mutateAsync()}
        description={t('Its sessions and instances do not change.')}
      />
    </li>
  );
}

function Instances({ make }: { make: () => void }) {
  const [archived, setArchived] = useState(false);
  const pages = usePages<Instance>(['agents', 'instances', { archived }], (query, signal) =>
    api().listAgentInstances({ query: { ...query, ...(archived ? { include_archived: true } : {}) }, signal }),
  );
  const runtimes = useRuntimes();
  return (
    <div className={list}>
      <div className="flex justify-end">
        <Check label={t('Show archived ones')} checked={archived} onChange={(event) => setArchived(event.target.checked)} />
      </div>
      <Loaded
        query={pages}
        isEmpty={() => pages.items?.length === 0}
        empty={
          <Empty
            icon={<Cpu size={28} />}
            title={t('No instances yet')}
            action={
              <Button look="primary" onClick={make}>
                {t('New instance')}
              </Button>
            }
          >
            {t('Issues are assigned to instances of agents. Create one from an agent, or an empty one.')}
          </Empty>
        }
      >
        {() => (
          <ul className="space-y-2">
            {pages.items?.map((one) => (
              <InstanceRow
                key={one.id}
                instance={one}
                runtime={runtimes.data?.items.find((runtime) => runtime.id === one.runtime_id)?.name ?? one.runtime_id}
              />
            ))}
          </ul>
        )}
      </Loaded>
      <More pages={pages} />
    </div>
  );
}

function InstanceRow({ instance, runtime }: { instance: Instance; runtime: string }) {
  const [asking, setAsking] = useState<'edit' | 'delete'>();
  const own = instance.owner_id === account().me.id;
  const archived = instance.archived_at !== null;
  const archive = useAction(() => api().updateAgentInstance(instance.id, { archived: !archived }), { refresh: [['agents']] });
  const remove = useAction(() => api().deleteAgentInstance(instance.id), { done: t('The instance was deleted.'), refresh: [['agents']] });
  return (
    <li className={row}>
      <Cpu size={20} className="shrink-0 text-soft" aria-hidden />
      <div className="min-w-0 flex-1">
        <p className="flex flex-wrap items-center gap-x-2">
          <span className="min-w-0 truncate font-medium" dir="auto">
            {instance.name}
          </span>
          <State
            value={instance.status}
            tone={
              instance.status === 'blocked'
                ? 'warn'
                : instance.status === 'idle'
                  ? 'good'
                  : instance.status === 'offline'
                    ? 'bad'
                    : 'accent'
            }
          />
          {archived && <Badge>{t('archived')}</Badge>}
          {(instance.visibility !== 'workspace' || (own && instance.shared_with.length === 0)) && <Badge>{t('private')}</Badge>}
        </p>
        <p className="truncate text-sm text-soft">
          {[
            t('runtime {name}', { name: runtime }),
            instance.model,
            t('{count} at once', { count: instance.max_concurrent_tasks }),
            instance.has_env && plural(instance.env_key_count, '{count} variable', '{count} variables'),
            instance.description,
          ]
            .filter(Boolean)
            .join(' · ')}
        </p>
      </div>
      {own && (
        <Menu
          trigger={
            <IconButton small label={t('Actions of {name}', { name: instance.name })}>
              <Ellipsis size={15} />
            </IconButton>
          }
          items={[
            { label: t('Edit'), run: () => setAsking('edit') },
            { label: archived ? t('Bring back') : t('Archive'), run: () => archive.mutate() },
            null,
            { label: t('Delete'), danger: true, run: () => setAsking('delete') },
          ]}
        />
      )}
      {asking === 'edit' && <InstanceForm instance={instance} close={() => setAsking(undefined)} />}
      <FormDialog
        open={asking === 'delete'}
        onOpenChange={() => setAsking(undefined)}
        danger
        title={t('Delete {name}?', { name: instance.name })}
        confirm={t('Delete')}
        submit={() => remove.mutateAsync()}
        description={t('Its sessions stay. Issues assigned to it get no more runs.')}
      />
    </li>
  );
}

const useRuntimes = () =>
  useQuery({
    queryKey: ['agents', 'runtimes'],
    queryFn: ({ signal }) => api().listAgentRuntimes({ query: { limit: 200 }, signal }),
    refetchInterval: 10_000,
  });

function Runtimes() {
  const runtimes = useRuntimes();
  return (
    <div className={list}>
      <Loaded
        query={runtimes}
        isEmpty={(data) => data.items.length === 0}
        empty={
          <Empty icon={<Server size={28} />} title={t('There is no runtime')}>
            {t('Workers register their runtime when they start. Without a worker, nothing runs.')}
          </Empty>
        }
      >
        {(data) => (
          <ul className="space-y-2">
            {data.items.map((one) => (
              <li key={one.id} className={row}>
                <Server size={20} className="shrink-0 text-soft" aria-hidden />
                <div className="min-w-0 flex-1">
                  <p className="flex flex-wrap items-center gap-x-2">
                    <span className="min-w-0 truncate font-medium">{one.name}</span>
                    <State value={one.status} tone={one.status === 'online' ? 'good' : one.status === 'draining' ? 'warn' : 'bad'} />
                  </p>
                  <p className="truncate text-sm text-soft">
                    {[
                      one.provider,
                      one.version,
                      plural(one.metadata.workers, '{count} worker', '{count} workers'),
                      one.device_info.os &&
                        plural(one.device_info.cpus ?? 0, '{system}, {count} processor', '{system}, {count} processors', {
                          system: `${one.device_info.os} ${one.device_info.arch}`,
                        }),
                      one.last_seen_at && one.status !== 'online' && t('seen {time}', { time: relative(one.last_seen_at) }),
                    ]
                      .filter(Boolean)
                      .join(' · ')}
                  </p>
                </div>
                <div className="w-28 shrink-0 text-xs text-soft">
                  <p className="text-right tabular-nums">
                    {t('{used} of {slots} in use', { used: one.capacity.used, slots: one.capacity.slots })}
                  </p>
                  <span className="mt-1 block h-1.5 overflow-hidden rounded-full bg-hover" aria-hidden>
                    <span
                      className="block h-full bg-accent"
                      style={{ width: `${Math.min(100, (one.capacity.used / Math.max(1, one.capacity.slots)) * 100)}%` }}
                    />
                  </span>
                </div>
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </div>
  );
}
