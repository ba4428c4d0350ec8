import { useQuery } from '@tanstack/react-query';
import type { Schemas } from '@everloop/sdk';
import { Download, Info, RefreshCw, Search, Sparkles, Upload } from 'lucide-react';
import { useDeferredValue, useRef, useState } from 'react';
import { bytes, dateTime } from '../../lib/format';
import { plural, t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { Button, IconButton } from '../../ui/button';
import { Dialog, FormDialog } from '../../ui/dialog';
import { Check, Field, Input, Select } from '../../ui/field';
import { Prose } from '../../ui/markdown';
import { Badge, Empty, Loaded } from '../../ui/page';
import { Facts, Row, Rows, Section } from '../../ui/rows';
import { readPackage } from './package';
import { SessionChoice } from './session-choice';

type Skill = Schemas['SkillItem'];
interface Wanted { org: string; name: string; version?: string | undefined }

const sources: Record<Skill['source'], string> = {
  builtin: t('of the service'),
  registry: t('from the registry'),
  uploaded: 'uploaded',
  partner: t('by the operator'),
};
const refresh = [['skills']] as const;

export function Skills() {
  const [session, setSession] = useState('');
  const [added, setAdded] = useState(false);
  const skills = useQuery({
    queryKey: ['skills', session || (added ? 'installed' : 'all')],
    queryFn: ({ signal }) =>
      session ? api().listSessionSkills(session, { signal }) : added ? api().listInstalledSkills({ signal }) : api().listSkills({ signal }),
  });
  const [shown, setShown] = useState<string>();
  const [wanted, setWanted] = useState<Wanted>();
  const [uploading, setUploading] = useState(false);
  const resync = useAction(() => api().resyncSkills(session), { done: (result) => result.detail, refresh });
  return (
    <>
      <Section
        title={t('Your skills')}
        note={t('Instructions that an agent loads when a task fits them.')}
        actions={
          <Button look="primary" onClick={() => setUploading(true)}>
            <Upload size={15} aria-hidden />
            {t('Upload a skill')}
          </Button>
        }
      >
        <div className="mb-3 flex flex-wrap items-end gap-x-4 gap-y-2">
          <div className="w-72 max-w-full">
            <SessionChoice label={t('Of')} value={session} change={setSession} empty={t('all your sessions')} />
          </div>
          {session ? (
            <Button busy={resync.isPending} onClick={() => resync.mutate()}>
              <RefreshCw size={15} aria-hidden />
              {t('Read the packages again')}
            </Button>
          ) : (
            <Check
              className="pb-1.5"
              label={t('Only added entries')}
              checked={added}
              onChange={(event) => setAdded(event.target.checked)}
            />
          )}
        </div>
        <Loaded
          query={skills}
          isEmpty={(data) => data.items.length === 0}
          empty={
            <Empty icon={<Sparkles size={28} />} title={t('Nothing was added')}>
              {t('Find a skill in the registry below, or upload one.')}
            </Empty>
          }
        >
          {({ items }) => (
            <Rows label={t('Skills')}>
              {items.map((skill) => {
                const { org } = skill;
                return (
                  <Row
                    key={skill.id}
                    title={skill.name}
                    badges={
                      <>
                        {skill.version && <Badge>{skill.version}</Badge>}
                        <Badge>{sources[skill.source]}</Badge>
                        {!skill.enabled && <Badge tone="bad">{t('cannot be used')}</Badge>}
                        {skill.changed && <Badge tone="warn">{t('changed')}</Badge>}
                        {skill.update_available && (
                          <Badge tone="accent">{t('{version} is there', { version: skill.release_version })}</Badge>
                        )}
                      </>
                    }
                    note={
                      <>
                        {skill.problem && <span className="block text-bad">{skill.problem}</span>}
                        {skill.description}
                      </>
                    }
                    actions={
                      <>
                        {skill.update_available && org && (
                          <Button small onClick={() => setWanted({ org, name: skill.name, version: skill.release_version })}>
                            <Download size={14} aria-hidden />
                            {t('Update')}
                          </Button>
                        )}
                        <IconButton label={t('Details of {name}', { name: skill.name })} onClick={() => setShown(skill.id)}>
                          <Info size={16} />
                        </IconButton>
                      </>
                    }
                  />
                );
              })}
            </Rows>
          )}
        </Loaded>
      </Section>
      <Registry show={setShown} install={setWanted} />
      {shown && <Detail id={shown} close={() => setShown(undefined)} />}
      {wanted && <Install wanted={wanted} session={session} done={() => setWanted(undefined)} />}
      {uploading && <UploadDialog session={session} done={() => setUploading(false)} />}
    </>
  );
}

function Registry({ show, install }: { show: (id: string) => void; install: (wanted: Wanted) => void }) {
  const [text, setText] = useState('');
  const q = useDeferredValue(text.trim());
  const stats = useQuery({ queryKey: ['skill-store'], queryFn: ({ signal }) => api().getSkillStoreStats({ signal }), staleTime: 60_000 });
  const found = useQuery({
    queryKey: ['skills', 'search', q],
    enabled: q !== '',
    queryFn: ({ signal }) => api().searchSkills({ query: { q, limit: 50 }, signal }),
  });
  const offered = useQuery({
    queryKey: ['skills', 'registry'],
    enabled: q === '',
    queryFn: ({ signal }) => api().listRegistryResources({ query: { type: 'skill', limit: 100 }, signal }),
  });
  const hits = q
    ? found.data?.results.map(({ id, org, name, version, description }) => ({ id, org, name, version, description }))
    : offered.data?.items.map(({ id, owner, name, version, description }) => ({ id, org: owner, name, version, description }));
  const query = q ? found : offered;
  return (
    <Section
      title={t('Registry')}
      note={
        stats.data
          ? t('Skills: {skills}, publishers: {publishers}, versions: {versions}.', {
              skills: stats.data.skills,
              publishers: stats.data.organizations,
              versions: stats.data.versions,
            })
          : t('Skills that can be installed.')
      }
    >
      <label className="relative mb-3 block max-w-md">
        <span className="sr-only">{t('Search skills')}</span>
        <Search size={15} className="absolute top-2 left-2.5 text-soft" aria-hidden />
        <Input
          type="search"
          className="pl-8"
          placeholder={t('Search skills')}
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
      </label>
      <Loaded
        query={{ data: hits, error: query.error, refetch: query.refetch }}
        empty={
          <Empty icon={<Search size={28} />} title={q ? t('No skill is like that') : t('The registry is empty')}>
            {q ? t('Try other words.') : t('Skills are published by uploading them, or by a push to the git hosting service.')}
          </Empty>
        }
      >
        {(items) => (
          <Rows label={t('Skills of the registry')}>
            {items.map((hit) => (
              <Row
                key={hit.id}
                title={hit.name}
                badges={
                  <>
                    {hit.version && <Badge>{hit.version}</Badge>}
                    {hit.org && <Badge>{hit.org}</Badge>}
                  </>
                }
                note={hit.description}
                actions={
                  <>
                    {q && (
                      <IconButton label={t('Details of {name}', { name: hit.name })} onClick={() => show(hit.id)}>
                        <Info size={16} />
                      </IconButton>
                    )}
                    {hit.org && (
                      <Button small onClick={() => install({ org: hit.org, name: hit.name })}>
                        <Download size={14} aria-hidden />
                        {t('Install')}
                        <span className="sr-only"> {hit.name}</span>
                      </Button>
                    )}
                  </>
                }
              />
            ))}
          </Rows>
        )}
      </Loaded>
    </Section>
  );
}

function Detail({ id, close }: { id: string; close: () => void }) {
  const skill = useQuery({ queryKey: ['skills', 'detail', id], queryFn: ({ signal }) => api().getSkill(id, { signal }) });
  return (
    <Dialog open onOpenChange={close} wide title={skill.data?.name ?? t('Skill')} description={skill.data?.description ?? ''}>
      <Loaded query={skill}>
        {(found) => (
          <div className="space-y-4">
            <Facts
              items={[
                [t('Version'), found.version || 'none'],
                [t('Source'), sources[found.source]],
                found.org ? [t('Publisher'), found.org] : undefined,
                found.installed_at ? [t('Installed'), dateTime(found.installed_at)] : undefined,
                found.required_env.length > 0 ? [t('Needs variables'), found.required_env.join(', ')] : undefined,
                found.permissions.length > 0 ? [t('Says it needs'), found.permissions.join(', ')] : undefined,
                [
                  t('Files'),
                  <ul key="files">
                    {found.files.slice(0, 100).map((file) => (
                      <li key={file.path}>
                        <bdi>{file.path}</bdi> <span className="text-soft">{bytes(file.size)}</span>
                      </li>
                    ))}
                  </ul>,
                ],
              ]}
            />
            <div className="rounded-lg border p-3">
              <Prose text={found.readme} />
            </div>
          </div>
        )}
      </Loaded>
    </Dialog>
  );
}

function Install({ wanted, session: given, done }: { wanted: Wanted; session: string; done: () => void }) {
  const [session, setSession] = useState(given);
  const install = useAction(
    () => api().installSkill(session, { org: wanted.org, name: wanted.name, ...(wanted.version ? { version: wanted.version } : {}) }),
    {
      done: (result) => t('{name} {version} was installed.', { name: result.name, version: result.version }),
      refresh,
    },
  );
  return (
    <FormDialog
      open
      onOpenChange={done}
      title={t('Install {name}', { name: wanted.name })}
      confirm={t('Install')}
      submit={() => install.mutateAsync()}
      description={t('By {org}. This session gets it immediately, your other sessions from now on.', { org: wanted.org })}
    >
      <SessionChoice value={session} change={setSession} hint={t('The package is copied to its workspace.')} />
    </FormDialog>
  );
}

function UploadDialog({ session: given, done }: { session: string; done: () => void }) {
  const [session, setSession] = useState(given);
  const [files, setFiles] = useState<File[]>([]);
  const [kind, setKind] = useState<'files' | 'directory'>('files');
  const picker = useRef<HTMLInputElement>(null);
  const upload = useAction(async () => api().uploadSkill(session, await readPackage(files), { timeoutMs: 300_000 }), {
    done: (result) =>
      result.overwritten
        ? plural(result.file_count, '{name} was replaced: {count} file.', '{name} was replaced: {count} files.', { name: result.name })
        : plural(result.file_count, '{name} was uploaded: {count} file.', '{name} was uploaded: {count} files.', { name: result.name }),
    refresh,
  });
  return (
    <FormDialog
      open
      onOpenChange={done}
      title={t('Upload a skill')}
      confirm={t('Upload')}
      submit={() => upload.mutateAsync()}
      description={t('A directory with a SKILL.md, or its files. It is installed in one session and replaces a skill of the same name there.')}
    >
      <SessionChoice value={session} change={setSession} />
      <Field label={t('Package is')}>
        {(ids) => (
          <Select
            {...ids}
            value={kind}
            onChange={(event) => {
              setKind(event.target.value as typeof kind);
              setFiles([]);
            }}
          >
            <option value="files">{t('single files')}</option>
            <option value="directory">{t('a directory')}</option>
          </Select>
        )}
      </Field>
      <Field
        label={t('Files')}
        hint={
          files.length > 0
            ? plural(files.length, '{count} file, {size}', '{count} files, {size}', {
                size: bytes(files.reduce((sum, file) => sum + file.size, 0)),
              })
            : undefined
        }
      >
        {(ids) => (
          <input
            {...ids}
            key={kind}
            ref={picker}
            type="file"
            multiple
            required
            {...(kind === 'directory' ? { webkitdirectory: '' } : {})}
            onChange={(event) => setFiles([...(event.target.files ?? [])])}
            className="block w-full text-sm file:mr-3 file:h-8 file:cursor-pointer file:rounded-md file:border file:bg-raised file:px-3
              file:text-ink"
          />
        )}
      </Field>
    </FormDialog>
  );
}
