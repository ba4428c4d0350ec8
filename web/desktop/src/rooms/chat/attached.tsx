import { useQuery } from '@tanstack/react-query';
import { createContext, useContext, useEffect, useState } from 'react';
import { t } from '../../lib/i18n';
import { api } from '../../lib/query';
import { Spinner } from '../../ui/page';

/** SessionOfCalls is the session whose calls are shown: their images are attachments of it. */
export const SessionOfCalls = createContext<string | undefined>(undefined);

/** Attached loads an attachment with the credential of the page, which an address alone would not have. */
export function Attached({ session, name, label, className }: { session: string; name: string; label: string; className: string }) {
  const picture = useQuery({
    queryKey: ['attachment', session, name], staleTime: Infinity, gcTime: 60_000,
    queryFn: async ({ signal }) => (await api().readAttachment(session, name, { signal })).blob(),
  });
  const [src, setSrc] = useState<string>();
  useEffect(() => {
    if (!picture.data) return undefined;
    const url = URL.createObjectURL(picture.data);
    setSrc(url);
    return () => URL.revokeObjectURL(url);
  }, [picture.data]);
  if (picture.error) return <span className="text-sm text-soft">{t('The picture could not be loaded.')}</span>;
  return src ? <img src={src} alt={label} className={className} /> : <Spinner />;
}

/** ResultImages shows the images of a tool's result. */
export function ResultImages({ images }: { images: readonly { attachment: string; mime_type: string }[] }) {
  const session = useContext(SessionOfCalls);
  if (!session) return null;
  return (
    <div className="space-y-2">
      {images.map((one, index) => (
        <Attached
          key={index}
          session={session}
          name={one.attachment}
          label={t('Picture of the tool ({kind})', { kind: one.mime_type })}
          className="max-h-96 max-w-full rounded-md border"
        />
      ))}
    </div>
  );
}
