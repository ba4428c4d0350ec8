import type { Message, SendOptions } from '@everloop/sdk';
import { ArrowUp, ChevronDown, FileText, Paperclip, Square, X } from 'lucide-react';
import { type ClipboardEvent, type DragEvent, type ReactNode, useEffect, useRef, useState } from 'react';
import { account } from '../../lib/auth';
import { cn } from '../../lib/cn';
import { draftOf, keepDraft } from '../../lib/drafts';
import { bytes } from '../../lib/format';
import { t } from '../../lib/i18n';
import { usePreferences } from '../../lib/preferences';
import { errorText } from '../../lib/query';
import { IconButton } from '../../ui/button';
import { Menu } from '../../ui/menu';
import { toast } from '../../ui/toast';
import { ResultChip, ResultChoice, type Wanted } from './result';

export type Delivery = NonNullable<SendOptions['delivery']>;

/** Draft is what is sent. Pictures are parts of the message; other files go to the workspace first. */
export interface Outgoing {
  text: string;
  pictures: string[];
  files: File[];
  delivery: Delivery;
  wanted?: Wanted | undefined;
}

interface Attachment {
  file: File;
  preview?: string;
}

const maxPictures = 8_000_000; // bytes of all pictures of one message, whose limit is 10 MB with base64
const pictureTypes = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

const readPicture = (file: File): Promise<string> => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(String(reader.result));
  reader.onerror = () => reject(new Error(t('{name} could not be read', { name: file.name })));
  reader.readAsDataURL(file);
});

/** messageOf makes the message of a text, pictures, and files that were stored. */
export function messageOf(text: string, pictures: string[], stored: string[]): Message {
  const files = stored.length > 0 ? `${text ? '\n\n' : ''}Attached files: ${stored.map((path) => `\`${path}\``).join(', ')}` : '';
  const whole = text + files;
  if (pictures.length === 0) return whole;
  return [
    ...(whole ? [{ type: 'text' as const, text: whole }] : []),
    ...pictures.map((url) => ({ type: 'image_url' as const, image_url: { url } })),
  ] as Message;
}

/** wantedOptions are the fields of a message that asks for one result. */
export const wantedOptions = (wanted: Wanted | undefined): Pick<SendOptions, 'headless' | 'outputSchema'> =>
  wanted === undefined ? {} : wanted.schema ? { headless: true, outputSchema: wanted.schema } : { headless: true };

const deliveries: Record<Exclude<Delivery, 'reject'>, { label: string; hint: string }> = {
  steer: { label: t('Steer'), hint: t('Join the running chat') },
  enqueue: { label: t('Queue|verb'), hint: t('After the chat has ended') },
  interrupt: { label: t('Interrupt'), hint: t('Stop the chat, then this') },
};

/** Composer writes messages. What is not sent is kept by `draftKey`, while other rooms are open and over a reload. */
export function Composer({ draftKey, running, send, stop, tools, quoted, disabled, placeholder }: {
  draftKey: string; running: boolean; send: (out: Outgoing) => Promise<unknown>; stop?: () => void; tools?: ReactNode;
  quoted?: { text: string; at: number } | undefined; disabled?: boolean; placeholder?: string;
}) {
  const person = account().me.id;
  const [text, setText] = useState(() => draftOf(person, draftKey));
  const [attached, setAttached] = useState<Attachment[]>([]);
  const [chosen, setDelivery] = useState<Exclude<Delivery, 'reject'>>('steer');
  const [wanted, setWanted] = useState<Wanted>();
  // A chat that runs keeps how it ends: a message that asks for one result is a chat of its own.
  const delivery = wanted && chosen === 'steer' ? 'enqueue' : chosen;
  const offered = (Object.keys(deliveries) as (keyof typeof deliveries)[]).filter((one) => !wanted || one !== 'steer');
  const [busy, setBusy] = useState(false);
  const [over, setOver] = useState(false);
  const { preferences } = usePreferences();
  const area = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);

  useEffect(() => keepDraft(person, draftKey, text), [person, draftKey, text]);
  useEffect(() => {
    const box = area.current;
    if (!box) return;
    box.style.height = 'auto';
    box.style.height = `${Math.min(box.scrollHeight, 260)}px`;
  }, [text]);
  useEffect(() => {
    if (!quoted) return;
    setText((was) => `${was}${was && !was.endsWith('\n') ? '\n' : ''}${quoted.text.split('\n').map((line) => `> ${line}`).join('\n')}\n\n`);
    area.current?.focus();
  }, [quoted]);
  useEffect(() => {
    if (matchMedia('(min-width: 768px)').matches) area.current?.focus();
  }, []);

  const attach = (files: Iterable<File>) => {
    const added = [...files].map((file) => ({ file, ...(pictureTypes.includes(file.type) ? { preview: URL.createObjectURL(file) } : {}) }));
    setAttached((all) => [...all, ...added].slice(0, 20));
  };
  const detach = (one: Attachment) => {
    if (one.preview) URL.revokeObjectURL(one.preview);
    setAttached((all) => all.filter((other) => other !== one));
  };

  const submit = async () => {
    const said = text.trim();
    if ((!said && attached.length === 0) || busy || disabled) return;
    const pictures = attached.filter((one) => one.preview);
    if (pictures.reduce((sum, one) => sum + one.file.size, 0) > maxPictures) {
      toast(t('Pictures can have up to {size} in total.', { size: bytes(maxPictures) }), 'bad');
      return;
    }
    setBusy(true);
    try {
      const read = await Promise.all(pictures.map((one) => readPicture(one.file)));
      await send({ text: said, pictures: read, files: attached.filter((one) => !one.preview).map((one) => one.file), delivery, wanted });
      keepDraft(person, draftKey, ''); // also where another room is open by now
      setText('');
      setWanted(undefined);
      attached.forEach(detach);
    } catch (error) {
      toast(errorText(error), 'bad');
    } finally {
      setBusy(false);
      area.current?.focus();
    }
  };

  const paste = (event: ClipboardEvent) => {
    const files = [...event.clipboardData.files];
    if (files.length === 0) return;
    event.preventDefault();
    attach(files);
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    attach(event.dataTransfer.files);
  };

  return (
    <div
      className={cn('rounded-xl border bg-raised shadow-sm focus-within:border-line-strong', over && 'border-accent bg-accent-soft')}
      onDragOver={(event) => {
        if (event.dataTransfer.types.includes('Files')) {
          event.preventDefault();
          setOver(true);
        }
      }}
      onDragLeave={() => setOver(false)}
      onDrop={drop}
    >
      {(attached.length > 0 || wanted) && (
        <ul aria-label={t('Attachments')} className="flex max-h-40 flex-wrap gap-2 overflow-y-auto px-3 pt-3">
          {wanted && <ResultChip value={wanted} remove={() => setWanted(undefined)} />}
          {attached.map((one, index) => (
            <li key={index} className="flex max-w-60 items-center gap-2 rounded-md border bg-panel py-1 pr-1 pl-2 text-xs">
              {one.preview ? (
                <img src={one.preview} alt="" className="size-8 rounded object-cover" />
              ) : (
                <FileText size={16} className="shrink-0 text-soft" aria-hidden />
              )}
              <span className="truncate" dir="auto">
                {one.file.name}
              </span>
              <span className="shrink-0 text-soft">{bytes(one.file.size)}</span>
              <IconButton small label={t('Remove {name}', { name: one.file.name })} onClick={() => detach(one)}>
                <X size={13} />
              </IconButton>
            </li>
          ))}
        </ul>
      )}
      <textarea
        ref={area}
        rows={1}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onPaste={paste}
        disabled={disabled}
        aria-label={t('Message')}
        dir="auto"
        placeholder={placeholder ?? (running ? t('Write to the running chat') : t('Write a message'))}
        className="block max-h-65 w-full resize-none bg-transparent px-3.5 pt-3 pb-1 outline-none"
        onKeyDown={(event) => {
          const sends = event.ctrlKey || event.metaKey || (preferences.send === 'enter' && !event.shiftKey);
          if (event.key === 'Enter' && sends && !event.nativeEvent.isComposing) {
            event.preventDefault();
            void submit();
          }
        }}
      />
      <div className="flex flex-wrap items-center gap-1 px-2 pb-2">
        <IconButton label={t('Attach files')} onClick={() => picker.current?.click()}>
          <Paperclip size={16} />
        </IconButton>
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          onChange={(event) => {
            attach(event.target.files ?? []);
            event.target.value = '';
          }}
        />
        <ResultChoice value={wanted} change={setWanted} />
        {tools}
        <span className="flex-1" />
        {running && (
          <Menu
            trigger={
              <button
                type="button"
                className="inline-flex h-8 items-center gap-1 rounded-md px-2 text-sm text-soft hover:bg-hover hover:text-ink"
              >
                {deliveries[delivery].label}
                <ChevronDown size={14} aria-hidden />
              </button>
            }
            items={offered.map((one) => ({
              label: `${deliveries[one].label}: ${deliveries[one].hint}`,
              run: () => setDelivery(one),
              checked: delivery === one,
            }))}
          />
        )}
        {running && stop && (
          <IconButton label={t('Stop')} look="plain" onClick={stop}>
            <Square size={14} fill="currentColor" />
          </IconButton>
        )}
        <IconButton
          label={t('Send')}
          look="primary"
          busy={busy}
          disabled={disabled || (!text.trim() && attached.length === 0)}
          onClick={() => void submit()}
        >
          <ArrowUp size={18} />
        </IconButton>
      </div>
    </div>
  );
}
