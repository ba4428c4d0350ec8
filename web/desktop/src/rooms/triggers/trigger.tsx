import type { Query, Schemas } from '@everloop/sdk';
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useParams } from '@tanstack/react-router';
import { ChevronRight, Ellipsis, KeyRound, Pencil, RotateCcw, Trash2 } from 'lucide-react';
import { useEffect, useState } from 'react';
import { cn } from '../../lib/cn';
import { bytes, dateTime } from '../../lib/format';
import { plural, t } from '../../lib/i18n';
import { api, useAction, usePages } from '../../lib/query';
import { Button, IconButton } from '../../ui/button';
import { Code } from '../../ui/code';
import { FormDialog } from '../../ui/dialog';
import { Select } from '../../ui/field';
import { Prose } from '../../ui/markdown';
import { Menu } from '../../ui/menu';
import { Badge, Empty, Loaded, More, Page } from '../../ui/page';
import { Crumbs, Facts, Section, SessionLink } from '../unattended/pieces';
import { targetOf } from '../unattended/target';
import { TargetLink } from '../unattended/target-fields';
import { Copied, Secret, TriggerForm } from './form';
import { addressOf, curlOf, type Delivery, type Outcome, outcomes, sourceText, targetText, type Trigger } from './words';

/** TriggerRoom is one trigger with its deliveries. */
export default function TriggerRoom() {
  const { triggerId: id } = useParams({ strict: false }) as { triggerId: string };
  const navigate = useNavigate();
  const trigger = useQuery({ queryKey: ['triggers', id], queryFn: ({ signal }) => api().getTrigger(id, { signal }), refetchInterval: 10_000 });
  const [asking, setAsking] = useState<'edit' | 'rotate' | 'delete'>();
  const [made, setMade] = useState<{ trigger: Trigger; secret: string }>();
  const enable = useAction((enabled: boolean) => api().updateTrigger(id, { enabled }), { refresh: [['triggers']] });
  const rotate = useAction(() => api().updateTrigger(id, { secret: null }), { refresh: [['triggers']] });
  const remove = useAction(() => api().deleteTrigger(id), { done: t('The trigger was deleted.'), refresh: [['triggers', 'list']] });
  const close = () => setAsking(undefined);
  return (
    <Page
      title={<Crumbs to="/triggers" label={t('Triggers')}>{trigger.data?.name ?? '…'}</Crumbs>}
      actions={
        trigger.data && (
          <>
            <Button small busy={enable.isPending} onClick={() => enable.mutate(!trigger.data.enabled)}>
              {trigger.data.enabled ? t('Pause') : t('Enable')}
            </Button>
            <Menu
              trigger={
                <IconButton label={t('Actions of the trigger')}>
                  <Ellipsis size={16} />
                </IconButton>
              }
              items={[
                { label: t('Edit'), icon: <Pencil size={15} />, run: () => setAsking('edit') },
                ...(trigger.data.path ? [{ label: t('New secret'), icon: <KeyRound size={15} />, run: () => setAsking('rotate') }] : []),
                null,
                { label: t('Delete'), icon: <Trash2 size={15} />, danger: true, run: () => setAsking('delete') },
              ]}
            />
          </>
        )
      }
    >
      <div className="mx-auto max-w-4xl space-y-6">
        <Loaded query={trigger}>{(found) => <About trigger={found} />}</Loaded>
        <Deliveries id={id} enabled={trigger.data?.enabled ?? false} />
      </div>
      {asking === 'edit' && trigger.data && <TriggerForm trigger={trigger.data} close={close} />}
      <FormDialog
        open={asking === 'rotate'}
        onOpenChange={close}
        danger
        title={t('New secret')}
        confirm={t('Make a new secret')}
        description={t('Events with the old secret are refused from then on.')}
        submit={async () => {
          const changed = await rotate.mutateAsync();
          close();
          setMade({ trigger: changed, secret: changed.secret ?? '' });
        }}
      />
      <FormDialog
        open={asking === 'delete'}
        onOpenChange={close}
        danger
        title={t('Delete the trigger?')}
        confirm={t('Delete')}
        description={t('Its deliveries are deleted, and its address stops working. What it has started stays.')}
        submit={async () => {
          await remove.mutateAsync();
          await navigate({ to: '/triggers' });
        }}
      />
      {made && <Secret {...made} close={() => setMade(undefined)} />}
    </Page>
  );
}

function About({ trigger }: { trigger: Trigger }) {
  const { target } = trigger;
  const text = target.prompt ?? targetOf(target).description;
  return (
    <>
      <Facts
        list={[
          [trigger.kind === 'webhook' ? t('Sender') : t('Starts when'), sourceText(trigger)],
          [
            t('Ends'),
            trigger.kind === 'run_ended' &&
              trigger.on.map((one) => (one === 'run_failed' ? t('failed') : t('completed'))).join(', '),
          ],
          [
            t('Then'),
            target.session_id ? (
              <SessionLink key="then" id={target.session_id} label={targetText(target)} />
            ) : (
              <TargetLink key="then" target={target as Schemas['Target']} label={targetText(target)} />
            ),
          ],
          [t('Agent'), target.kind === 'agent' && String(target.agent_id)],
          [t('Inputs'), target.kind === 'dag' && <code key="i" className="break-all">{JSON.stringify(target.inputs ?? {})}</code>],
          [t('Filter'), trigger.filter && <code key="f" className="break-all">{trigger.filter}</code>],
          [t('Limit'), plural(trigger.rate_limit, '{count} event per minute', '{count} events per minute')],
        ]}
      />
      {text && (
        <section aria-label={target.kind === 'issue' ? t('Description') : t('Prompt')} className="max-h-60 overflow-y-auto rounded-lg border px-3 py-2 text-sm" tabIndex={0}>
          <Prose text={text} />
        </section>
      )}
      {trigger.path && (
        <div className="space-y-2">
          <Copied label={t('Address')} text={addressOf(trigger.path)} />
          {trigger.auth && (
            <details>
              <summary className="cursor-pointer text-sm text-accent hover:underline">{t('Command that sends an event')}</summary>
              <div className="mt-2">
                <Code
                  text={curlOf(addressOf(trigger.path), trigger.auth)}
                  language="bash"
                  label={t('Command that sends an event')}
                />
              </div>
            </details>
          )}
        </div>
      )}
    </>
  );
}

function Deliveries({ id, enabled }: { id: string; enabled: boolean }) {
  const [outcome, setOutcome] = useState<Outcome | ''>('');
  const pages = usePages<Delivery>(['triggers', id, 'deliveries', outcome], (query, signal) => {
    const filter: Query<'list-trigger-deliveries'> = outcome ? { ...query, outcome } : query;
    return api().listTriggerDeliveries(id, { query: filter, signal });
  });
  const { refetch } = pages;
  useEffect(() => {
    const timer = setInterval(() => { if (document.visibilityState === 'visible') void refetch(); }, 4000);
    return () => clearInterval(timer);
  }, [refetch]);
  return (
    <Section
      title={t('Deliveries')}
      actions={
        <Select aria-label={t('Outcome')} className="w-auto!" value={outcome} onChange={(event) => setOutcome(event.target.value as Outcome)}>
          <option value="">{t('any outcome')}</option>
          {Object.entries(outcomes).map(([one, { label }]) => (
            <option key={one} value={one}>
              {label}
            </option>
          ))}
        </Select>
      }
    >
      <Loaded
        query={pages}
        isEmpty={() => pages.items?.length === 0}
        empty={
          outcome ? (
            <Empty title={t('Nothing fits')} action={<Button onClick={() => setOutcome('')}>{t('Show all deliveries')}</Button>} />
          ) : (
            <Empty title={t('Nothing has arrived yet')}>
              {t('Each event that arrives is listed here, with its outcome and what it has started.')}
            </Empty>
          )
        }
      >
        {() => (
          <ul className="divide-y rounded-lg border bg-raised">
            {pages.items?.map((one) => (
              <Row key={one.id} id={id} delivery={one} enabled={enabled} />
            ))}
          </ul>
        )}
      </Loaded>
      <More pages={pages} />
    </Section>
  );
}

/** indented writes JSON over several lines, and any other text as it is. */
function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function Row({ id, delivery, enabled }: { id: string; delivery: Delivery; enabled: boolean }) {
  const [open, setOpen] = useState(false);
  const again = useAction(() => api().redeliverTrigger(id, delivery.id), { done: t('The delivery was started again.'), refresh: [['triggers', id]] });
  const outcome = delivery.outcome ? outcomes[delivery.outcome] : undefined;
  const [kind, solution, run] = delivery.run?.split('/') ?? [];
  return (
    <li className="text-sm">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1 px-3 py-1.5">
        <button
          type="button"
          aria-expanded={open}
          className="flex min-w-0 flex-1 items-center gap-2 text-left max-sm:basis-full"
          onClick={() => setOpen(!open)}
        >
          <ChevronRight size={14} className={cn('shrink-0 text-soft transition-transform', open && 'rotate-90')} aria-hidden />
          <Badge tone={outcome?.tone ?? 'accent'}>{outcome?.label ?? t('in progress')}</Badge>
          <span className="min-w-0 truncate font-medium">{delivery.event || t('event')}</span>
        </button>
        <span className="text-xs text-soft max-sm:flex-1 max-sm:pl-6">
          {delivery.attempt > 1 && `${t('attempt {attempt}', { attempt: delivery.attempt })} · `}
          <time dateTime={delivery.created_at}>{dateTime(delivery.created_at)}</time>
        </span>
        {delivery.session_id && <SessionLink id={delivery.session_id} />}
        {kind === 'dag' && solution && run && (
          <Link to="/dags/$dagId/runs/$runId" params={{ dagId: solution, runId: run }} className="text-accent hover:underline">
            {t('Run')}
          </Link>
        )}
        <Button small busy={again.isPending} disabled={!enabled || !delivery.outcome || !delivery.body_kept} onClick={() => again.mutate()}>
          <RotateCcw size={13} aria-hidden />
          {t('Redeliver')}
        </Button>
      </div>
      {(delivery.error ?? delivery.reason_code) && (
        <p className="px-3 pb-2 pl-9 break-words text-soft">{delivery.error ?? delivery.reason_code?.replaceAll('_', ' ')}</p>
      )}
      {open && (
        <div className="space-y-2 px-3 pb-3 pl-9">
          <p className="font-medium">{t('Body, {size}', { size: bytes(delivery.body_bytes) })}</p>
          {delivery.body ? <Code text={indented(delivery.body)} language="json" label={t('Body')} /> : <p className="text-soft">{t('Not stored.')}</p>}
          <p className="font-medium">{t('Headers')}</p>
          <Code text={JSON.stringify(delivery.headers, null, 2)} language="json" label={t('Headers')} />
          <p className="text-xs text-soft">{t('Values that look like secrets are masked.')}</p>
        </div>
      )}
    </li>
  );
}
