import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { Schemas } from '@everloop/sdk';
import { Brain, Eye, EyeOff, Pencil, Plus, Trash2 } from 'lucide-react';
import { useDeferredValue, useState } from 'react';
import { dateTime } from '../../lib/format';
import { plural, t } from '../../lib/i18n';
import { api, useAction, usePages } from '../../lib/query';
import { word } from '../../lib/words';
import { Button, IconButton } from '../../ui/button';
import { FormDialog } from '../../ui/dialog';
import { Area, Field, Input, Select } from '../../ui/field';
import { Badge, Empty, Loaded, More } from '../../ui/page';
import { Row, Rows, Section } from '../../ui/rows';

type Memory = Schemas['Memory'];
type Status = 'active' | 'disabled' | 'superseded';
const refresh = [['memories']] as const;

export function Memories() {
  const [text, setText] = useState('');
  const [status, setStatus] = useState<Status>('active');
  const keyword = useDeferredValue(text.trim());
  const list = usePages(
    ['memories', keyword, status],
    (page, signal) => api().listMemories({ query: { ...page, status, ...(keyword ? { keyword } : {}) }, signal }),
    50,
  );
  const config = useQuery({ queryKey: ['config'], queryFn: ({ signal }) => api().getConfig({ signal }), staleTime: 300_000 });
  const [asking, setAsking] = useState<{ what: 'edit'; memory?: Memory } | { what: 'delete'; ids: number[] }>();
  const [chosen, setChosen] = useState<number[]>([]);
  const change = useAction(({ ids, action }: { ids: number[]; action: 'disable' | 'enable' }) => api().changeMemories({ ids, action }), {
    done: ({ count }) => plural(count, '{count} memory was changed.', '{count} memories were changed.'),
    refresh,
  });
  const close = () => setAsking(undefined);
  const shown = list.items?.filter((one) => chosen.includes(one.id)).map((one) => one.id) ?? [];
  return (
    <Section
      title={t('Memories')}
      note={
        config.data?.memoryEnabled === false
          ? t('Memory is turned off in this service.')
          : t('What agents remember of your preferences and their experience, for sessions that use memory.')
      }
      actions={
        <Button look="primary" onClick={() => setAsking({ what: 'edit' })}>
          <Plus size={15} aria-hidden />
          {t('Add a memory')}
        </Button>
      }
    >
      <div className="mb-3 grid gap-3 sm:grid-cols-[1fr_10rem]">
        <Field label={t('Find')}>
          {(ids) => <Input {...ids} type="search" value={text} onChange={(event) => setText(event.target.value)} />}
        </Field>
        <Field label={t('Status')}>
          {(ids) => (
            <Select
              {...ids}
              value={status}
              onChange={(event) => {
                setStatus(event.target.value as Status);
                setChosen([]);
              }}
            >
              <option value="active">{t('active')}</option>
              <option value="disabled">{t('disabled')}</option>
              <option value="superseded">{t('superseded')}</option>
            </Select>
          )}
        </Field>
      </div>
      {shown.length > 0 && (
        <p className="mb-2 flex flex-wrap items-center gap-2 text-sm" role="status">
          {t('{count} chosen', { count: shown.length })}
          {status !== 'disabled' && (
            <Button small onClick={() => change.mutate({ ids: shown.slice(0, 100), action: 'disable' })}>
              {t('Disable')}
            </Button>
          )}
          {status === 'disabled' && (
            <Button small onClick={() => change.mutate({ ids: shown.slice(0, 100), action: 'enable' })}>
              {t('Enable')}
            </Button>
          )}
          <Button small look="danger" onClick={() => setAsking({ what: 'delete', ids: shown.slice(0, 100) })}>
            {t('Delete')}
          </Button>
        </p>
      )}
      <Loaded
        query={{ data: list.items, error: list.error, refetch: list.refetch }}
        empty={
          <Empty icon={<Brain size={28} />} title={t('No matching memories')}>
            {t('Agents write memories when they learn your preferences. You can also write one yourself.')}
          </Empty>
        }
      >
        {(items) => (
          <Rows label={t('Memories')}>
            {items.map((memory) => (
              <Row
                key={memory.id}
                title={
                  <label className="flex items-start gap-2">
                    <input
                      type="checkbox"
                      className="mt-1 size-3.5 shrink-0 accent-(--accent)"
                      checked={chosen.includes(memory.id)}
                      onChange={(event) =>
                        setChosen(event.target.checked ? [...chosen, memory.id] : chosen.filter((id) => id !== memory.id))
                      }
                    />
                    <span className="min-w-0 font-normal break-words whitespace-pre-wrap" dir="auto">
                      {memory.content}
                    </span>
                  </label>
                }
                badges={
                  <>
                    <Badge tone={memory.type === 'feedback' ? 'accent' : 'neutral'}>{word(memory.type)}</Badge>
                    {memory.topic && <Badge>{memory.topic}</Badge>}
                    {memory.disabled && <Badge tone="warn">{t('disabled')}</Badge>}
                  </>
                }
                note={
                  <>
                    {[
                      dateTime(memory.updated_at ?? memory.created_at),
                      plural(memory.hit_count, 'used {count} time', 'used {count} times'),
                      memory.skill_name && t('of the skill {name}', { name: memory.skill_name }),
                      memory.write_reason,
                    ]
                      .filter(Boolean)
                      .join(' · ')}
                    {memory.source_session && (
                      <>
                        {' '}
                        ·{' '}
                        <Link
                          to="/s/$sessionId"
                          params={{ sessionId: memory.source_session }}
                          className="text-accent underline underline-offset-2"
                        >
                          {t('its session')}
                        </Link>
                      </>
                    )}
                  </>
                }
                actions={
                  <>
                    <IconButton
                      label={memory.disabled ? t('Enable') : t('Disable')}
                      onClick={() => change.mutate({ ids: [memory.id], action: memory.disabled ? 'enable' : 'disable' })}
                    >
                      {memory.disabled ? <Eye size={15} /> : <EyeOff size={15} />}
                    </IconButton>
                    <IconButton label={t('Edit')} onClick={() => setAsking({ what: 'edit', memory })}>
                      <Pencil size={15} />
                    </IconButton>
                    <IconButton label={t('Delete')} onClick={() => setAsking({ what: 'delete', ids: [memory.id] })}>
                      <Trash2 size={15} />
                    </IconButton>
                  </>
                }
              />
            ))}
          </Rows>
        )}
      </Loaded>
      <More pages={list} />
      {asking?.what === 'edit' && <Edit memory={asking.memory} done={close} />}
      {asking?.what === 'delete' && <Delete ids={asking.ids} done={close} />}
    </Section>
  );
}

function Edit({ memory, done }: { memory: Memory | undefined; done: () => void }) {
  const [content, setContent] = useState(memory?.content ?? '');
  const [type, setType] = useState<Memory['type']>(memory?.type ?? 'feedback');
  const [topic, setTopic] = useState(memory?.topic ?? '');
  const save = useAction(async () => {
    const body = { content: content.trim(), type, topic: topic.trim() || null };
    return memory ? api().updateMemory(String(memory.id), body) : api().createMemory(body);
  }, { done: t('The memory was saved.'), refresh });
  return (
    <FormDialog
      open
      onOpenChange={done}
      title={memory ? t('Edit the memory') : t('Add a memory')}
      confirm={t('Save')}
      submit={() => save.mutateAsync()}
    >
      <Field label={t('What to remember')} hint={t('{count} of 500 characters', { count: content.length })}>
        {(ids) => <Area {...ids} required autoFocus maxLength={500} value={content} onChange={(event) => setContent(event.target.value)} />}
      </Field>
      <div className="grid gap-3 sm:grid-cols-2">
        <Field label={t('Kind')}>
          {(ids) => (
            <Select {...ids} value={type} onChange={(event) => setType(event.target.value as Memory['type'])}>
              <option value="feedback">{t('feedback: what you want')}</option>
              <option value="experience">{t('experience: what the agent learned')}</option>
            </Select>
          )}
        </Field>
        <Field label={t('Topic')}>
          {(ids) => <Input {...ids} maxLength={255} value={topic} onChange={(event) => setTopic(event.target.value)} />}
        </Field>
      </div>
    </FormDialog>
  );
}

function Delete({ ids, done }: { ids: number[]; done: () => void }) {
  const remove = useAction(() => api().changeMemories({ ids, action: 'delete' }), {
    done: ({ count }) => plural(count, '{count} memory was deleted.', '{count} memories were deleted.'),
    refresh,
  });
  return (
    <FormDialog
      open
      onOpenChange={done}
      danger
      title={plural(ids.length, 'Delete the memory?', 'Delete {count} memories?')}
      confirm={t('Delete')}
      submit={() => remove.mutateAsync()}
      description={t('Agents can no longer recall it. To keep the text, disable it instead.')}
    />
  );
}
