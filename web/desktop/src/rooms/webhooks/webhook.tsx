import type { Query, Schemas } from '@everloop/sdk';
import { useQuery } from '@tanstack/react-query';
import { useNavigate, useParams } from '@tanstack/react-router';
import { ChevronRight, Ellipsis, KeyRound, Pencil, RotateCcw, Trash2 } from 'lucide-react';
import { useEffect, useState } from 'react';
import { cn } from '../../lib/cn';
import { dateTime, duration } from '../../lib/format';
import { plural, t } from '../../lib/i18n';
import { api, useAction, usePages } from '../../lib/query';
import { Button, IconButton } from '../../ui/button';
import { Code } from '../../ui/code';
import { FormDialog } from '../../ui/dialog';
import { Field, Input, Select } from '../../ui/field';
import { Menu } from '../../ui/menu';
import { Empty, Loaded, More, Page } from '../../ui/page';
import { Crumbs, Facts, jsonText, Section, State } from '../unattended/pieces';
import { eventGroups, eventsText } from './events';
import { Secret, WebhookForm } from './form';

type Filter = Pick<Query<'list-webhook-deliveries'>, 'status' | 'event'>;

/** Webhook is one webhook with what was sent. */
export default function WebhookRoom() {
  const { webhookId: id } = useParams({ strict: false }) as { webhookId: string };
  const navigate = useNavigate();
  const hook = useQuery({ queryKey: ['webhooks', id], queryFn: ({ signal }) => api().getWebhook(id, { signal }), refetchInterval: 10_000 });
  const [asking, setAsking] = useState<'edit' | 'rotate' | 'delete'>();
  const [secret, setSecret] = useState<string>();
  const [overlap, setOverlap] = useState(24);
  const enable = useAction((enabled: boolean) => api().updateWebhook(id, { enabled }), { refresh: [['webhooks']] });
  const rotate = useAction(() => api().rotateWebhookSecret(id, { overlap_s: overlap * 3600 }), { refresh: [['webhooks']] });
  const remove = useAction(() => api().deleteWebhook(id), { done: t('The webhook was deleted.'), refresh: [['webhooks', 'list']] });
  const close = () => setAsking(undefined);
  return (
    <Page
      title={
        <Crumbs to="/webhooks" label={t('Webhooks')}>
          {hook.data ? hook.data.description || hook.data.url : '…'}
        </Crumbs>
      }
      actions={
        hook.data && (
          <>
            <Button small busy={enable.isPending} onClick={() => enable.mutate(!hook.data.enabled)}>
              {hook.data.enabled ? t('Disable') : t('Enable')}
            </Button>
            <Menu
              trigger={
                <IconButton label={t('Actions of the webhook')}>
                  <Ellipsis size={16} />
                </IconButton>
              }
              items={[
                { label: t('Edit'), icon: <Pencil size={15} />, run: () => setAsking('edit') },
                { label: t('New secret'), icon: <KeyRound size={15} />, run: () => setAsking('rotate') },
                null,
                { label: t('Delete'), icon: <Trash2 size={15} />, danger: true, run: () => setAsking('delete') },
              ]}
            />
          </>
        )
      }
    >
      <div className="mx-auto max-w-4xl space-y-6">
        <Loaded query={hook}>
          {(found) => (
            <>
              {found.disabled_reason && (
                <p role="alert" className="rounded-lg border border-bad/40 bg-bad-soft px-3 py-2 text-sm text-bad">
                  {t('Disabled: {reason}', { reason: found.disabled_reason })}
                </p>
              )}
              <Facts
                list={[
                  [
                    t('Address'),
                    <span key="url" className="break-all">
                      {found.url}
                    </span>,
                  ],
                  [t('Sends'), eventsText(found.events)],
                  [t('Only of'), found.session_id ? t('one session') : found.task_id && t('one schedule')],
                  [
                    t('Failing since'),
                    found.failing_since &&
                      plural(found.consecutive_failures, '{since}, {count} time', '{since}, {count} times', {
                        since: dateTime(found.failing_since),
                      }),
                  ],
                  [
                    t('Old secret'),
                    found.previous_secret_until && t('also signs until {time}', { time: dateTime(found.previous_secret_until) }),
                  ],
                ]}
              />
            </>
          )}
        </Loaded>
        <Deliveries id={id} enabled={hook.data?.enabled ?? false} />
      </div>
      {asking === 'edit' && hook.data && <WebhookForm webhook={hook.data} close={close} />}
      <FormDialog
        open={asking === 'rotate'}
        onOpenChange={close}
        title={t('New secret')}
        confirm={t('Make a new secret')}
        submit={async () => {
          const made = await rotate.mutateAsync();
          close();
          setSecret(made.secret);
        }}
        description={t('Requests are signed with both secrets for some time, so that you can change the receiver without losing any.')}
      >
        <Field label={t('Hours in which the old secret also signs')}>
          {(ids) => (
            <Input
              {...ids}
              type="number"
              min={0}
              max={168}
              required
              value={overlap}
              onChange={(event) => setOverlap(Math.trunc(event.target.valueAsNumber) || 0)}
            />
          )}
        </Field>
      </FormDialog>
      <FormDialog
        open={asking === 'delete'}
        onOpenChange={close}
        danger
        title={t('Delete the webhook?')}
        confirm={t('Delete')}
        description={t('Its deliveries are also deleted.')}
        submit={async () => {
          await remove.mutateAsync();
          await navigate({ to: '/webhooks' });
        }}
      />
      {secret !== undefined && <Secret secret={secret} close={() => setSecret(undefined)} />}
    </Page>
  );
}

function Deliveries({ id, enabled }: { id: string; enabled: boolean }) {
  const [filter, setFilter] = useState<Filter>({});
  const pages = usePages<Schemas['WebhookDelivery']>(['webhooks', id, 'deliveries', filter], (query, signal) =>
    api().listWebhookDeliveries(id, { query: { ...query, ...filter }, signal }),
  );
  const { refetch } = pages;
  useEffect(() => {
    const timer = setInterval(() => { if (document.visibilityState === 'visible') void refetch(); }, 5000);
    return () => clearInterval(timer);
  }, [refetch]);
  return (
    <Section
      title={t('Deliveries')}
      actions={
        <>
          <Select
            aria-label={t('Status')}
            className="w-auto!"
            value={filter.status ?? ''}
            onChange={(event) =>
              setFilter(({ status: _, ...rest }) =>
                event.target.value ? { ...rest, status: event.target.value as NonNullable<Filter['status']> } : rest,
              )
            }
          >
            <option value="">{t('any status')}</option>
            <option value="pending">{t('pending')}</option>
            <option value="delivered">{t('delivered')}</option>
            <option value="failed">{t('failed')}</option>
          </Select>
          <Select
            aria-label={t('Event')}
            className="w-auto!"
            value={filter.event ?? ''}
            onChange={(event) =>
              setFilter(({ event: _, ...rest }) =>
                event.target.value ? { ...rest, event: event.target.value as NonNullable<Filter['event']> } : rest,
              )
            }
          >
            <option value="">{t('any event')}</option>
            {eventGroups
              .flatMap((group) => group.events)
              .map((one) => (
                <option key={one}>{one}</option>
              ))}
          </Select>
        </>
      }
    >
      <Loaded
        query={pages}
        isEmpty={() => pages.items?.length === 0}
        empty={
          <Empty title={filter.status || filter.event ? t('Nothing fits') : t('Nothing was sent yet')}>
            {filter.status || filter.event
              ? t('No deliveries with this status and event.')
              : t('Deliveries appear here, with each attempt and the response of the receiver.')}
          </Empty>
        }
      >
        {() => (
          <ul className="divide-y rounded-lg border bg-raised">
            {pages.items?.map((one) => (
              <Delivery key={one.id} id={id} delivery={one} enabled={enabled} />
            ))}
          </ul>
        )}
      </Loaded>
      <More pages={pages} />
    </Section>
  );
}

function Delivery({ id, delivery, enabled }: { id: string; delivery: Schemas['WebhookDelivery']; enabled: boolean }) {
  const [open, setOpen] = useState(false);
  const again = useAction(() => api().redeliverWebhook(id, delivery.id), { done: t('It is sent again.'), refresh: [['webhooks', id]] });
  const last = delivery.attempts.at(-1);
  return (
    <li className="text-sm">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1 px-3 py-1.5">
        <button
          type="button"
          aria-expanded={open}
          className="flex min-w-0 flex-1 items-center gap-2 text-left"
          onClick={() => setOpen(!open)}
        >
          <ChevronRight size={14} className={cn('shrink-0 text-soft transition-transform', open && 'rotate-90')} aria-hidden />
          <State value={delivery.status} />
          <span className="min-w-0 truncate font-medium">{delivery.event}</span>
        </button>
        <span className="text-xs text-soft">
          {last && last.status_code > 0 && `${t('answer {status}', { status: String(last.status_code) })} · `}
          {plural(delivery.attempt_count, '{count} attempt', '{count} attempts')} ·{' '}
          <time dateTime={delivery.created_at}>{dateTime(delivery.created_at)}</time>
        </span>
        <Button small busy={again.isPending} disabled={!enabled || delivery.status === 'pending'} onClick={() => again.mutate()}>
          <RotateCcw size={13} aria-hidden />
          {t('Send again')}
        </Button>
      </div>
      {delivery.error && !open && <p className="px-3 pb-2 pl-9 break-words text-bad">{delivery.error}</p>}
      {open && (
        <div className="space-y-2 px-3 pb-3 pl-9">
          {delivery.error && <p className="break-words text-bad">{delivery.error}</p>}
          {delivery.next_attempt_at && delivery.status === 'pending' && (
            <p className="text-soft">{t('Next attempt {time}', { time: dateTime(delivery.next_attempt_at) })}</p>
          )}
          <ol aria-label={t('Attempts')} className="space-y-1">
            {delivery.attempts.map((one) => (
              <li key={one.number}>
                <p>
                  <span className="text-soft">{one.number}.</span> {dateTime(one.at)}:{' '}
                  {one.status_code > 0 ? t('answer {status}', { status: String(one.status_code) }) : (one.error ?? t('no answer'))}{' '}
                  <span className="text-soft">{t('in {time}', { time: duration(one.duration_ms) })}</span>
                </p>
                {one.response && (
                  <Code text={one.response} className="mt-1" label={t('Answer to attempt {number}', { number: one.number })} />
                )}
              </li>
            ))}
          </ol>
          <p className="font-medium">{t('Request')}</p>
          <Code text={jsonText(delivery.request)} language="json" label={t('Request')} />
        </div>
      )}
    </li>
  );
}
