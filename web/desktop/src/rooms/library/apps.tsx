import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { Schemas } from '@everloop/sdk';
import { AppWindow, ExternalLink, Trash2, Upload } from 'lucide-react';
import { useState } from 'react';
import { dateTime } from '../../lib/format';
import { t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { Button, IconButton } from '../../ui/button';
import { CopyButton } from '../../ui/code';
import { FormDialog } from '../../ui/dialog';
import { Field, Input } from '../../ui/field';
import { Badge, Empty, Loaded, type Tone } from '../../ui/page';
import { Row, Rows, Section } from '../../ui/rows';
import { SessionChoice } from './session-choice';

type App = Schemas['AppBody'];
const tones: Record<App['status'], Tone> = { live: 'good', building: 'accent', failed: 'bad', stopped: 'neutral' };
const refresh = [['apps']] as const;

export function Apps() {
  const apps = useQuery({ queryKey: ['apps'], queryFn: ({ signal }) => api().listApps({ signal }) });
  const [publishing, setPublishing] = useState(false);
  const [removing, setRemoving] = useState<App>();
  const remove = useAction((id: string) => api().unpublishApp(id), { done: t('The app is no longer public.'), refresh });
  const again = useAction(
    (app: App) => api().publishApp({ session_id: app.session_id, working_dir: app.working_dir }, { timeoutMs: 600_000 }),
    { done: t('The app was published again.'), refresh },
  );
  return (
    <Section
      title={t('Published apps')}
      note={t('Published directories that anyone with the address can see.')}
      actions={
        <Button look="primary" onClick={() => setPublishing(true)}>
          <Upload size={15} aria-hidden />
          {t('Publish')}
        </Button>
      }
    >
      <Loaded
        query={apps}
        isEmpty={(data) => data.items.length === 0}
        empty={
          <Empty icon={<AppWindow size={28} />} title={t('Nothing is published')}>
            {t('Publish a directory that has an index.html: a report, a chart, a small application.')}
          </Empty>
        }
      >
        {({ items }) => (
          <Rows label={t('Published apps')}>
            {items.map((app) => (
              <Row
                key={app.app_id}
                title={app.name}
                badges={<Badge tone={tones[app.status]}>{app.status}</Badge>}
                note={
                  <>
                    <span className="flex min-w-0 items-center gap-1">
                      <a
                        href={app.url}
                        target="_blank"
                        rel="noopener noreferrer"
                        className="inline-flex min-w-0 items-center gap-1 text-accent underline underline-offset-2"
                      >
                        <span className="truncate">{app.url}</span>
                        <ExternalLink size={12} className="shrink-0" aria-hidden />
                      </a>
                      <CopyButton text={app.url} label={t('Copy the address')} />
                    </span>
                    {[app.working_dir || t('the whole workspace'), app.published_at && dateTime(app.published_at)]
                      .filter(Boolean)
                      .join(' · ')}{' '}
                    ·{' '}
                    <Link
                      to="/s/$sessionId/files"
                      params={{ sessionId: app.session_id }}
                      className="text-accent underline underline-offset-2"
                    >
                      {t('files')}
                    </Link>
                  </>
                }
                actions={
                  <>
                    <Button small busy={again.isPending} onClick={() => again.mutate(app)}>
                      {t('Publish again')}
                    </Button>
                    <IconButton label={t('Unpublish {name}', { name: app.name })} onClick={() => setRemoving(app)}>
                      <Trash2 size={15} />
                    </IconButton>
                  </>
                }
              />
            ))}
          </Rows>
        )}
      </Loaded>
      {publishing && <Publish done={() => setPublishing(false)} />}
      {removing && (
        <FormDialog
          open
          onOpenChange={() => setRemoving(undefined)}
          danger
          title={t('Unpublish the app?')}
          confirm={t('Unpublish')}
          submit={() => remove.mutateAsync(removing.app_id)}
          description={
            <>
              {t('The address of “{name}” stops working and its copy is deleted. The files of the session stay.', {
                name: removing.name,
              })}
            </>
          }
        />
      )}
    </Section>
  );
}

function Publish({ done }: { done: () => void }) {
  const [session, setSession] = useState('');
  const [directory, setDirectory] = useState('');
  const publish = useAction(
    () => api().publishApp({ session_id: session, ...(directory.trim() ? { working_dir: directory.trim() } : {}) }, { timeoutMs: 600_000 }),
    { done: (app) => t('Published at {url}', { url: app.url }), refresh },
  );
  return (
    <FormDialog
      open
      onOpenChange={done}
      title={t('Publish an app')}
      confirm={t('Publish')}
      submit={() => publish.mutateAsync()}
      description={t('Publishes a copy of the directory. Anyone with the address can see it without signing in.')}
    >
      <SessionChoice value={session} change={setSession} />
      <Field label={t('Directory')} hint={t('Must contain an index.html. Empty: the whole workspace')}>
        {(ids) => <Input {...ids} spellCheck={false} value={directory} onChange={(event) => setDirectory(event.target.value)} />}
      </Field>
    </FormDialog>
  );
}
